//! Routes that scatter what belongs together, as findings.

use crate::config::Config;
use crate::replication::preflight::Finding;
use crate::routing::{Scatter, scatters};

/// One warning each.
pub(super) fn judge(config: &Config) -> Vec<Finding> {
    scatters(config).into_iter().map(of_scatter).collect()
}

fn of_scatter(Scatter { routes, message, fix }: Scatter) -> Finding {
    let numbers: Vec<String> = routes.iter().map(usize::to_string).collect();
    let subject = match numbers.as_slice() {
        [only] => format!("route {only}"),
        _ => format!("routes {}", numbers.join(", ")),
    };
    Finding::warning(subject, message).fix(fix)
}
