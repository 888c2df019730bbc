//! `pgoutbox check`: everything `run` needs, one line each.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;

use super::{ConfigArgs, runtime, unwritable};
use crate::config::Config;
use crate::failure::Failure;
use crate::postgres::Settings;
use crate::relay::{Known, Trial, columns_needed, survey, try_sinks};
use crate::replication::preflight::{Finding, Report, Severity, doctor, preflight};

const EXAMPLES: &str = "\
Exit code 0 where nothing is an error, 1 otherwise, 2 for a wrong configuration.

Examples:
  pgoutbox check -c orders.yaml
  pgoutbox check -c orders.yaml --json | jq '.[] | select(.severity != \"ok\")'";

/// Arguments of `check`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Print a JSON array of {severity, subject, message, fix}
    #[arg(long)]
    json: bool,
}

/// Checks everything and prints it.
pub(super) fn run(arguments: CheckArgs) -> Result<ExitCode, Failure> {
    let config = arguments.config.load()?;
    let findings = runtime()?.block_on(everything(&config))?;
    let is_fine = print(&findings, arguments.json, &mut io::stdout()).map_err(unwritable)?;
    Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn everything(config: &Config) -> Result<Vec<Finding>, Failure> {
    let mut findings = postgres(config).await?;
    let trials = try_sinks(config).await?;
    let surveyed = survey(config, &trials).await?;
    findings.extend(trials.into_iter().map(of_sink));
    findings.extend(surveyed);
    Ok(findings)
}

fn of_sink(Trial { sink, outcome }: Trial) -> Finding {
    let subject = format!("sink `{sink}`");
    match outcome {
        Ok(Known { kind, names, .. }) if names.is_empty() => {
            Finding::ok(subject, format!("connects; {kind} depend on the events"))
        }
        Ok(Known { kind, names, .. }) => {
            Finding::ok(subject, format!("connects; {kind}: {}", names.join(", ")))
        }
        Err(failure) => Finding::from_failure(subject, &failure),
    }
}

/// What there is to say about PostgreSQL: the preflight of `run`, and what only `check` asks.
async fn postgres(config: &Config) -> Result<Vec<Finding>, Failure> {
    let settings = Settings::parse(config.source.url.expose(), config.source.password.as_ref())?;
    let needed = columns_needed(config)?;
    let Report { mut findings, slot, .. } = preflight(config, &settings, &needed).await;
    // Where the ordinary connection fails, the others only fail again.
    if findings.iter().all(|finding| finding.subject != "connection") {
        findings.extend(doctor(config, &settings, slot.as_ref()).await);
    }
    Ok(findings)
}

/// Prints `findings` and tells whether there is no error among them.
fn print(findings: &[Finding], json: bool, out: &mut dyn Write) -> io::Result<bool> {
    if json {
        serde_json::to_writer_pretty(&mut *out, findings)?;
        writeln!(out)?;
    } else {
        for finding in findings {
            writeln!(out, "{finding}")?;
        }
    }
    out.flush()?;
    Ok(findings.iter().all(|finding| finding.severity != Severity::Error))
}
