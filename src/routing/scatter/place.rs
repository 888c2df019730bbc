//! One route for the rows of one table: what it takes, and where that goes.

use std::collections::BTreeMap;

use super::key::{Key, Meaning};
use crate::config::{MatchConfig, RouteConfig, TargetConfig, TemplatePart, TemplateText};

/// A route that takes events of one table.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) number: usize,
    pub(super) route: &'a RouteConfig,
    pub(super) is_kafka: bool,
    destination: Destination,
    /// Conditions on parts of the ordering key, by what they look at.
    on_key: BTreeMap<String, &'a MatchConfig>,
    /// The first condition on something else.
    on_other: Option<&'a str>,
    /// What the route's events have in common.
    pinned: BTreeMap<String, String>,
}

/// What keeps its own order. Topics are equal where their templates are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Destination {
    Topic(usize, String),
    Sink(usize),
}

impl<'a> Place<'a> {
    /// `None` where the route takes no event of the key's table.
    pub(super) fn new(
        key: &Key<'_>,
        number: usize,
        route: &'a RouteConfig,
        is_kafka: bool,
    ) -> Option<Self> {
        let mut place = Self {
            number,
            route,
            is_kafka,
            destination: Destination::Sink(route.sink),
            on_key: BTreeMap::new(),
            on_other: None,
            pinned: BTreeMap::new(),
        };
        for condition in &route.matches {
            let meaning = key.meaning(&condition.column);
            let is_of_key = key.holds(&meaning);
            match meaning {
                Meaning::Fixed(text) if !accepts(&condition.accepts, &text) => return None,
                Meaning::Fixed(_) => {}
                Meaning::Varying(name) => {
                    if let Some(text) = condition.accepts.only() {
                        place.pinned.insert(name.clone(), text.to_owned());
                    }
                    if is_of_key {
                        place.on_key.insert(name, &condition.accepts);
                    } else {
                        place.on_other.get_or_insert(&condition.column);
                    }
                }
            }
        }
        if let (TargetConfig::Topic { topic, .. }, true) = (&route.target, is_kafka) {
            place.destination = Destination::Topic(route.sink, place.canonical(key, topic));
        }
        Some(place)
    }

    /// What keeps the order of what it takes.
    pub(super) fn destination(&self) -> &Destination {
        &self.destination
    }

    /// What it chooses by among events of one ordering key; `None` where it takes all of them.
    pub(super) fn partial_by(&self) -> Option<&'a str> {
        self.on_other
    }

    /// Whether an ordering key may be in both, as far as conditions on its parts tell.
    pub(super) fn shares_a_key(&self, other: &Self) -> bool {
        self.on_key.iter().all(|(name, ours)| {
            let Some(theirs) = other.on_key.get(name) else { return true };
            match (ours.finite(), theirs.finite()) {
                (Some(texts), _) => texts.iter().any(|text| accepts(theirs, text)),
                (None, Some(texts)) => texts.iter().any(|text| accepts(ours, text)),
                // Nobody tells whether two patterns meet.
                (None, None) => true,
            }
        })
    }

    /// Whether it takes every event of all keys that are in both others.
    pub(super) fn covers(&self, first: &Self, second: &Self) -> bool {
        self.on_other.is_none()
            && self.on_key.iter().all(|(name, ours)| {
                let conditions: Vec<&MatchConfig> =
                    [first, second].iter().filter_map(|it| it.on_key.get(name).copied()).collect();
                conditions.iter().any(|theirs| match theirs.finite() {
                    Some(texts) => texts
                        .iter()
                        .filter(|text| conditions.iter().all(|it| accepts(it, text)))
                        .all(|text| accepts(ours, text)),
                    None => is_same_pattern(ours, theirs),
                })
            })
    }

    /// The first name in `text` whose value may change within an ordering key.
    pub(super) fn unsteady<'t>(&self, key: &Key<'_>, text: &'t TemplateText) -> Option<&'t str> {
        text.parts.iter().find_map(|part| match part {
            TemplatePart::Literal(_) => None,
            TemplatePart::Placeholder(name) => {
                let meaning = key.meaning(name);
                let is_steady = key.holds(&meaning)
                    || matches!(&meaning, Meaning::Varying(name) if self.pinned.contains_key(name));
                (!is_steady).then_some(name.as_str())
            }
        })
    }

    /// `text` with what is known of its names, so that equal ones give equal topics.
    fn canonical(&self, key: &Key<'_>, text: &TemplateText) -> String {
        let part = |part: &TemplatePart| match part {
            TemplatePart::Literal(text) => text.clone(),
            TemplatePart::Placeholder(name) => match key.meaning(name) {
                Meaning::Fixed(text) => text,
                Meaning::Varying(name) => match self.pinned.get(&name) {
                    Some(text) => text.clone(),
                    None => format!("${{{name}}}"),
                },
            },
        };
        text.parts.iter().map(part).collect()
    }

    /// For messages.
    pub(super) fn describe(&self) -> String {
        match &self.route.target {
            TargetConfig::Topic { topic, .. } => {
                format!("route {} (topic `{}`)", self.number, show(topic))
            }
            TargetConfig::Exchange { exchange, .. } => {
                format!("route {} (exchange `{}`)", self.number, show(exchange))
            }
        }
    }
}

/// The texts that a condition takes, where they can be counted.
trait Texts {
    /// All of them.
    fn finite(&self) -> Option<&[String]>;

    /// The one text that it takes, if there is no other.
    fn only(&self) -> Option<&str> {
        match self.finite() {
            Some([only]) => Some(only),
            _ => None,
        }
    }
}

impl Texts for MatchConfig {
    fn finite(&self) -> Option<&[String]> {
        match self {
            Self::Value(text) => Some(std::slice::from_ref(text)),
            Self::List(texts) => Some(texts),
            Self::Regex(_) => None,
        }
    }
}

fn accepts(condition: &MatchConfig, text: &str) -> bool {
    match condition {
        MatchConfig::Value(accepted) => accepted == text,
        MatchConfig::List(accepted) => accepted.iter().any(|accepted| accepted == text),
        // Already anchored at both ends by the configuration.
        MatchConfig::Regex(regex) => regex.is_match(text),
    }
}

fn is_same_pattern(ours: &MatchConfig, theirs: &MatchConfig) -> bool {
    match (ours, theirs) {
        (MatchConfig::Regex(ours), MatchConfig::Regex(theirs)) => ours.as_str() == theirs.as_str(),
        _ => false,
    }
}

/// A template as it stands in the file.
pub(super) fn show(text: &TemplateText) -> String {
    let part = |part: &TemplatePart| match part {
        TemplatePart::Literal(text) => text.replace('$', "$$"),
        TemplatePart::Placeholder(name) => format!("${{{name}}}"),
    };
    text.parts.iter().map(part).collect()
}
