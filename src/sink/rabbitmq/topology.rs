//! A virtual host's exchanges, queues and bindings, and where a routing key leads in them.
//!
//! Pure: `management` reads them from a broker. The rules are those of RabbitMQ's exchange types; an
//! exchange whose type has rules of its own (headers, plugins) is said to be unknown, not guessed at.

mod pattern;
mod queue;

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value};

pub use queue::{Loss, Queue};

/// An exchange as the management API shows it.
#[derive(Clone, Debug, Deserialize)]
pub struct Exchange {
    /// Its name.
    pub name: String,
    /// `direct`, `fanout`, `topic`, `headers`, or a plugin's.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it outlives a restart of the broker.
    pub durable: bool,
    /// Whether it goes with its last binding.
    #[serde(default)]
    pub auto_delete: bool,
    /// Whether clients may not publish to it.
    #[serde(default)]
    pub internal: bool,
    #[serde(default)]
    arguments: Value,
    /// The policy in force.
    #[serde(default)]
    policy: Option<String>,
}

/// A binding as the management API shows it.
#[derive(Clone, Debug, Deserialize)]
pub struct Binding {
    source: String,
    destination: String,
    destination_type: String,
    routing_key: String,
}

/// A policy, as far as it says something of exchanges.
#[derive(Clone, Debug, Deserialize)]
pub struct Policy {
    name: String,
    definition: Map<String, Value>,
}

/// Everything of one virtual host.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    exchanges: BTreeMap<String, Exchange>,
    queues: BTreeMap<String, Queue>,
    /// By source.
    bindings: BTreeMap<String, Vec<Binding>>,
    /// By the name of the policy that gives it.
    alternates: BTreeMap<String, String>,
}

/// Where messages to one exchange with one routing key go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// There is no such exchange.
    NoExchange,
    /// The exchange takes nothing from clients.
    Internal,
    /// To no queue: the broker returns them.
    Nowhere,
    /// To these queues, in the order of their names.
    Queues(Vec<String>),
    /// An exchange of this type decides by rules that are not known here.
    Unknown(String),
}

#[derive(Default)]
struct Walk {
    exchanges: BTreeSet<String>,
    queues: BTreeSet<String>,
    unknown: Option<String>,
}

impl Topology {
    /// Puts together what the management API gives.
    pub fn new(
        exchanges: Vec<Exchange>,
        queues: Vec<Queue>,
        bindings: Vec<Binding>,
        policies: Vec<Policy>,
    ) -> Self {
        let mut topology = Self {
            exchanges: exchanges.into_iter().map(|it| (it.name.clone(), it)).collect(),
            queues: queues.into_iter().map(|it| (it.name.clone(), it)).collect(),
            ..Self::default()
        };
        for binding in bindings {
            topology.bindings.entry(binding.source.clone()).or_default().push(binding);
        }
        for Policy { name, definition } in policies {
            if let Some(Value::String(alternate)) = definition.get("alternate-exchange") {
                topology.alternates.insert(name, alternate.clone());
            }
        }
        topology
    }

    /// The exchange of this name.
    pub fn exchange(&self, name: &str) -> Option<&Exchange> {
        self.exchanges.get(name)
    }

    /// The queue of this name.
    pub fn queue(&self, name: &str) -> Option<&Queue> {
        self.queues.get(name)
    }

    /// Where a message goes that is published to `exchange` (the empty name is the default exchange)
    /// with `routing_key`.
    pub fn reach(&self, exchange: &str, routing_key: &str) -> Reach {
        if !exchange.is_empty() {
            match self.exchanges.get(exchange) {
                None => return Reach::NoExchange,
                Some(exchange) if exchange.internal => return Reach::Internal,
                Some(_) => {}
            }
        }
        let mut walk = Walk::default();
        self.walk(exchange, routing_key, &mut walk);
        match walk {
            Walk { queues, .. } if !queues.is_empty() => {
                Reach::Queues(queues.into_iter().collect())
            }
            Walk { unknown: Some(kind), .. } => Reach::Unknown(kind),
            Walk { .. } => Reach::Nowhere,
        }
    }

    fn walk(&self, name: &str, routing_key: &str, walk: &mut Walk) {
        // Exchanges may be bound in a circle, and each has its say once.
        let mut waiting = vec![name.to_owned()];
        while let Some(name) = waiting.pop() {
            if !walk.exchanges.insert(name.clone()) {
                continue;
            }
            if name.is_empty() {
                // Every queue is bound to the default exchange by its name.
                walk.queues.extend(self.queues.get(routing_key).map(|queue| queue.name.clone()));
                continue;
            }
            let Some(exchange) = self.exchanges.get(&name) else { continue };
            let Some(matches) = rule(&exchange.kind) else {
                walk.unknown.get_or_insert_with(|| exchange.kind.clone());
                continue;
            };
            let bindings = self.bindings.get(&name).map_or(&[][..], Vec::as_slice);
            let mut routed = false;
            for binding in bindings.iter().filter(|it| matches(&it.routing_key, routing_key)) {
                routed = true;
                match binding.destination_type.as_str() {
                    "exchange" => waiting.push(binding.destination.clone()),
                    _ => {
                        walk.queues.insert(binding.destination.clone());
                    }
                }
            }
            if !routed {
                waiting.extend(self.alternate(exchange).map(str::to_owned));
            }
        }
    }

    /// Where an exchange sends what it cannot route. Its own argument goes before a policy.
    fn alternate<'a>(&'a self, exchange: &'a Exchange) -> Option<&'a str> {
        let own = exchange.arguments.get("alternate-exchange").and_then(Value::as_str);
        let by_policy = || self.alternates.get(exchange.policy.as_ref()?).map(String::as_str);
        own.or_else(by_policy)
    }
}

/// How an exchange of this type compares a binding's key with a message's; `None` where it does not,
/// or by more than the keys.
fn rule(kind: &str) -> Option<fn(&str, &str) -> bool> {
    match kind {
        "direct" => Some(|binding, key| binding == key),
        "fanout" => Some(|_, _| true),
        "topic" => Some(pattern::matches),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (name, type)
    fn exchanges(exchanges: &[(&str, &str)]) -> Vec<Exchange> {
        let exchange = |(name, kind): &(&str, &str)| Exchange {
            name: (*name).to_owned(),
            kind: (*kind).to_owned(),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: Value::Null,
            policy: None,
        };
        exchanges.iter().map(exchange).collect()
    }

    /// A queue for each name.
    fn queues(names: &[&str]) -> Vec<Queue> {
        let queue = |name: &&str| {
            serde_json::from_value(serde_json::json!({"name": name, "durable": true})).unwrap()
        };
        names.iter().map(queue).collect()
    }

    /// `source -key-> destination`; a destination in capitals is an exchange.
    fn bindings(bindings: &[(&str, &str, &str)]) -> Vec<Binding> {
        let binding = |(source, key, destination): &(&str, &str, &str)| Binding {
            source: (*source).to_owned(),
            destination: (*destination).to_owned(),
            destination_type: match destination.starts_with(char::is_uppercase) {
                true => "exchange".to_owned(),
                false => "queue".to_owned(),
            },
            routing_key: (*key).to_owned(),
        };
        bindings.iter().map(binding).collect()
    }

    fn to(queues: &[&str]) -> Reach {
        Reach::Queues(queues.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn each_type_has_its_rule() {
        let topology = Topology::new(
            exchanges(&[("D", "direct"), ("F", "fanout"), ("T", "topic"), ("H", "headers")]),
            queues(&["a", "b"]),
            bindings(&[("D", "x", "a"), ("F", "", "a"), ("F", "y", "b"), ("T", "x.*", "b")]),
            Vec::new(),
        );
        assert_eq!(topology.reach("D", "x"), to(&["a"]));
        assert_eq!(topology.reach("D", "y"), Reach::Nowhere);
        assert_eq!(topology.reach("F", "whatever"), to(&["a", "b"]));
        assert_eq!(topology.reach("T", "x.y"), to(&["b"]));
        assert_eq!(topology.reach("T", "x"), Reach::Nowhere);
        assert_eq!(topology.reach("H", "x"), Reach::Unknown("headers".to_owned()));
        assert_eq!(topology.reach("", "a"), to(&["a"]), "the default exchange");
        assert_eq!(topology.reach("", "c"), Reach::Nowhere);
        assert_eq!(topology.reach("gone", "x"), Reach::NoExchange);
    }

    #[test]
    fn exchanges_lead_on_to_exchanges_even_in_a_circle() {
        let topology = Topology::new(
            exchanges(&[("A", "fanout"), ("B", "direct"), ("C", "fanout")]),
            queues(&["q"]),
            bindings(&[("A", "", "B"), ("B", "x", "C"), ("C", "", "A"), ("C", "", "q")]),
            Vec::new(),
        );
        assert_eq!(topology.reach("A", "x"), to(&["q"]));
        assert_eq!(topology.reach("A", "y"), Reach::Nowhere);
    }

    #[test]
    fn what_an_exchange_cannot_route_goes_to_its_alternate() {
        let mut by_argument = exchanges(&[("A", "direct"), ("B", "direct"), ("Else", "fanout")]);
        by_argument[0].arguments = serde_json::json!({"alternate-exchange": "Else"});
        by_argument[1].policy = Some("catch".to_owned());
        let policy = serde_json::json!({
            "name": "catch", "definition": {"alternate-exchange": "Else"}, "pattern": "B",
        });
        let topology = Topology::new(
            by_argument,
            queues(&["q", "rest"]),
            bindings(&[("A", "x", "q"), ("Else", "", "rest")]),
            vec![serde_json::from_value(policy).unwrap()],
        );
        assert_eq!(topology.reach("A", "x"), to(&["q"]));
        assert_eq!(topology.reach("A", "y"), to(&["rest"]));
        assert_eq!(topology.reach("B", "y"), to(&["rest"]));
    }

    #[test]
    fn an_internal_exchange_takes_nothing() {
        let mut internal = exchanges(&[("A", "fanout")]);
        internal[0].internal = true;
        let bound = bindings(&[("A", "", "q")]);
        let topology = Topology::new(internal, queues(&["q"]), bound, Vec::new());
        assert_eq!(topology.reach("A", ""), Reach::Internal);
    }
}
