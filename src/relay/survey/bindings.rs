//! What a virtual host makes of the addresses that events go to.

use std::collections::BTreeSet;

use super::address::Address;
use crate::replication::preflight::Finding;
use crate::sink::rabbitmq::topology::{Reach, Topology};

/// Addresses that are named, of those with one fault.
const NAMED: usize = 20;

/// One line for each fault, and one for what is well.
pub(super) fn judge(
    subject: &str,
    topology: &Topology,
    addresses: &BTreeSet<Address>,
) -> Vec<Finding> {
    let mut survey = Survey::new(subject, topology);
    for address in addresses {
        survey.look(address);
    }
    survey.findings(addresses.len())
}

struct Survey<'a> {
    subject: &'a str,
    topology: &'a Topology,
    exchanges: BTreeSet<String>,
    queues: BTreeSet<String>,
    routed: usize,
    errors: Vec<Finding>,
    unknown: Vec<Finding>,
}

impl<'a> Survey<'a> {
    fn new(subject: &'a str, topology: &'a Topology) -> Self {
        Self {
            subject,
            topology,
            exchanges: BTreeSet::new(),
            queues: BTreeSet::new(),
            routed: 0,
            errors: Vec::new(),
            unknown: Vec::new(),
        }
    }

    fn look(&mut self, Address { exchange, routing_key }: &Address) {
        self.exchanges.insert(exchange.clone());
        match self.topology.reach(exchange, routing_key) {
            Reach::Queues(queues) => {
                self.routed += 1;
                self.queues.extend(queues);
            }
            Reach::Nowhere if exchange.is_empty() => {
                let message = format!("there is no queue `{routing_key}` for the default exchange");
                self.errors
                    .push(self.error(message).fix(format!("declare the queue `{routing_key}`")));
            }
            Reach::Nowhere => {
                let message = format!(
                    "nothing is bound to exchange `{exchange}` for the routing key `{routing_key}`: \
                     the broker would return its events"
                );
                let fix =
                    format!("bind a queue to `{exchange}` with the routing key `{routing_key}`");
                self.errors.push(self.error(message).fix(fix));
            }
            Reach::NoExchange => {
                let error = self.error(format!("there is no exchange `{exchange}`"));
                let error = error.fix(format!("declare the exchange `{exchange}`, durable"));
                if !self.errors.contains(&error) {
                    self.errors.push(error);
                }
            }
            Reach::Internal => {
                let message =
                    format!("exchange `{exchange}` is internal: nobody may publish to it");
                self.errors.push(self.error(message));
            }
            Reach::Unknown(kind) => {
                let message = format!(
                    "routing key `{routing_key}` of exchange `{exchange}` is not checked: exchanges \
                     of type `{kind}` decide by more than keys"
                );
                self.unknown.push(Finding::ok(self.subject, message));
            }
        }
    }

    fn error(&self, message: String) -> Finding {
        Finding::error(self.subject, message)
    }

    fn findings(self, asked: usize) -> Vec<Finding> {
        let mut findings: Vec<Finding> = self.volatile_exchanges().collect();
        findings.extend(self.losing_queues());
        let Self { subject, queues, routed, errors, unknown, .. } = self;
        findings.extend(first(errors));
        findings.extend(first(unknown));
        let queues: Vec<&str> = queues.iter().map(String::as_str).take(NAMED).collect();
        let message = match asked {
            0 => "no routing key is known before there are events, so no binding is checked".into(),
            _ => format!("{routed} of {asked} routing keys lead to queues: {}", queues.join(", ")),
        };
        if asked == 0 || routed > 0 {
            findings.push(Finding::ok(subject, message));
        }
        findings
    }

    fn volatile_exchanges(&self) -> impl Iterator<Item = Finding> {
        let known = self.exchanges.iter().filter_map(|name| self.topology.exchange(name));
        let volatile = known.filter(|exchange| !exchange.durable || exchange.auto_delete);
        volatile.map(|exchange| {
            let why = match exchange.durable {
                false => "is not durable: a restart of the broker loses it with its bindings",
                true => "is deleted with its last binding (auto-delete)",
            };
            Finding::warning(self.subject, format!("exchange `{}` {why}", exchange.name))
                .fix("declare it durable, without auto-delete")
        })
    }

    fn losing_queues(&self) -> impl Iterator<Item = Finding> {
        let queues = self.queues.iter().filter_map(|name| self.topology.queue(name));
        queues.flat_map(|queue| {
            queue.losses().into_iter().map(|loss| {
                Finding::warning(self.subject, format!("queue `{}` {loss}", queue.name))
                    .fix(loss.way_out())
            })
        })
    }
}

/// The first of many lines, and how many more there are.
fn first(mut findings: Vec<Finding>) -> Vec<Finding> {
    let more = findings.len().saturating_sub(NAMED);
    findings.truncate(NAMED);
    let last = findings.last().filter(|_| more > 0).cloned();
    findings.extend(last.map(|last| Finding {
        message: format!("and {more} more routing keys like these"),
        fix: None,
        ..last
    }));
    findings
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn addresses(addresses: &[(&str, &str)]) -> BTreeSet<Address> {
        let address = |(exchange, key): &(&str, &str)| Address {
            exchange: (*exchange).to_owned(),
            routing_key: (*key).to_owned(),
        };
        addresses.iter().map(address).collect()
    }

    fn topology(exchanges: Value, queues: Value, bindings: Value) -> Topology {
        let of = |source, destination: &str, key| {
            json!({
                "source": source, "destination": destination, "destination_type": "queue",
                "routing_key": key,
            })
        };
        let bindings = bindings.as_array().unwrap().iter();
        let bindings: Vec<Value> =
            bindings.map(|it| of(&it[0], it[2].as_str().unwrap(), &it[1])).collect();
        Topology::new(
            from_value(exchanges).unwrap(),
            from_value(queues).unwrap(),
            from_value(Value::from(bindings)).unwrap(),
            Vec::new(),
        )
    }

    fn lines(topology: &Topology, asked: &[(&str, &str)]) -> Vec<String> {
        let findings = judge("sink `tasks`", topology, &addresses(asked));
        findings.iter().map(|it| format!("{} {}", it.severity, it.message)).collect()
    }

    #[test]
    fn each_fault_is_told_once() {
        let topology = topology(
            json!([
                {"name": "a", "type": "direct", "durable": true},
                {"name": "h", "type": "headers", "durable": false},
            ]),
            json!([{"name": "q", "durable": false}]),
            json!([["a", "x", "q"], ["a", "y", "q"]]),
        );
        let asked = [
            ("a", "x"),
            ("a", "y"),
            ("a", "z"),
            ("h", "x"),
            ("gone", "x"),
            ("gone", "y"),
            ("", "r"),
        ];
        insta::assert_snapshot!(lines(&topology, &asked).join("\n"), @"
        warning exchange `h` is not durable: a restart of the broker loses it with its bindings
        warning queue `q` is not durable: a restart of the broker loses it
        error there is no queue `r` for the default exchange
        error nothing is bound to exchange `a` for the routing key `z`: the broker would return its events
        error there is no exchange `gone`
        ok routing key `x` of exchange `h` is not checked: exchanges of type `headers` decide by more than keys
        ok 2 of 7 routing keys lead to queues: q
        ");
    }

    #[test]
    fn what_cannot_be_known_is_not_called_well() {
        let topology = topology(json!([]), json!([]), json!([]));
        insta::assert_snapshot!(lines(&topology, &[]).join("\n"), @"ok no routing key is known before there are events, so no binding is checked");
    }

    #[test]
    fn many_faults_are_counted() {
        let topology = topology(
            json!([{"name": "a", "type": "direct", "durable": true}]),
            json!([]),
            json!([]),
        );
        let keys: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        let asked: Vec<(&str, &str)> = keys.iter().map(|key| ("a", key.as_str())).collect();
        let lines = lines(&topology, &asked);
        assert_eq!(lines.len(), NAMED + 1);
        assert_eq!(lines[NAMED], "error and 80 more routing keys like these");
    }
}
