//! `pgoutbox alerts`: the rules and how they stand, and a test of those who are told.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{ConfigArgs, runtime, unwritable};
use crate::alert::{Alerts, Sent, send_test};
use crate::config::{Config, TlsFiles};
use crate::failure::Failure;
use crate::http_client::Peer;

const EXAMPLES: &str = "\
Examples:
  pgoutbox alerts list -c orders.yaml
  pgoutbox alerts list -c orders.yaml --json | jq '.alerts[] | select(.state == \"firing\")'
  pgoutbox alerts test -c orders.yaml";

/// Arguments of `alerts`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct AlertsArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Prints every rule, and how it stands where the relay answers at `http.listen`.
    List(ListArgs),
    /// Sends a test alert to every Alertmanager and the webhook: firing, then resolved.
    ///
    /// Exit code 0 where everyone took it, 1 otherwise.
    Test(TestArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Print a JSON object {relay, alerts: [{name, state, severity, metric, rule, …}]}
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct TestArgs {
    #[command(flatten)]
    config: ConfigArgs,
}

/// Does one of them.
pub(super) fn run(arguments: AlertsArgs) -> Result<ExitCode, Failure> {
    let mut out = io::stdout();
    match arguments.what {
        What::List(ListArgs { config, json }) => {
            let config = config.load()?;
            let (rules, note) = runtime()?.block_on(rules(&config));
            print_rules(&rules, note, json, &mut out).map_err(unwritable)?;
            Ok(ExitCode::SUCCESS)
        }
        What::Test(TestArgs { config }) => {
            let config = config.load()?;
            if config.alerts.alertmanagers.is_empty() && config.alerts.webhook.is_none() {
                return Err(Failure::configuration("nobody is told of alerts")
                    .hint("name an Alertmanager: `alerts: {alertmanager: http://…:9093}`"));
            }
            let sent = runtime()?.block_on(send_test(&config));
            let all_taken = print_sent(&sent, &mut out).map_err(unwritable)?;
            Ok(if all_taken { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

/// The relay's answer, or the configuration's rules and why there is no such answer.
async fn rules(config: &Config) -> (Value, Option<String>) {
    let of_config = || json!({ "relay": config.name, "alerts": Alerts::rules(config) });
    let Some(listen) = config.http_listen else {
        return (of_config(), Some("`http.listen` is off".to_owned()));
    };
    let url = format!("http://{}", reachable(listen));
    let tls = TlsFiles::default();
    let peer = Peer { url: &url, name: "the relay", login: None, tls: &tls };
    let answer = match peer.get("/alerts").await {
        Ok(answer) => serde_json::from_slice::<Value>(&answer.body).ok(),
        Err(_) => None,
    };
    match answer.filter(|answer| answer["relay"] == config.name) {
        Some(answer) => (answer, None),
        None => (of_config(), Some(format!("relay `{}` does not answer at {url}", config.name))),
    }
}

/// Where to connect to what listens on every address.
fn reachable(mut listen: SocketAddr) -> SocketAddr {
    if listen.ip().is_unspecified() {
        listen.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    listen
}

fn print_rules(
    rules: &Value,
    note: Option<String>,
    json: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    if json {
        serde_json::to_writer_pretty(&mut *out, rules)?;
        return writeln!(out);
    }
    let text = |alert: &Value, key: &str| alert[key].as_str().unwrap_or("-").to_owned();
    for alert in rules["alerts"].as_array().into_iter().flatten() {
        let (name, state, severity) =
            (text(alert, "name"), text(alert, "state"), text(alert, "severity"));
        let rule = format!("{} {}", text(alert, "metric"), text(alert, "rule"));
        writeln!(out, "{state:<8} {severity:<8} {name:<34} {rule} (now {})", text(alert, "value"))?;
        if let Some(description) = alert["description"].as_str() {
            writeln!(out, "         {description}")?;
        }
        if let Some(fix) = alert["fix"].as_str() {
            writeln!(out, "         fix: {fix}")?;
        }
    }
    match note {
        Some(note) => writeln!(out, "how they stand is not known: {note}"),
        None => Ok(()),
    }
}

/// Prints how it went and tells whether everyone took it.
fn print_sent(sent: &[Sent], out: &mut dyn Write) -> io::Result<bool> {
    for Sent { kind, address, failure } in sent {
        match failure {
            None => writeln!(out, "ok     {kind} at {address}: took it firing and resolved")?,
            Some(failure) => writeln!(out, "error  {kind} at {address}: {failure}")?,
        }
    }
    out.flush()?;
    Ok(sent.iter().all(|sent| sent.failure.is_none()))
}
