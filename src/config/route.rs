//! `routes`.

use regex::Regex;

use super::field::{Field, Fields};
use super::{
    Condition, ConfigError, Location, MatchConfig, Problem, RouteConfig, SinkConfig, TargetConfig,
    TemplatePart, TemplateText, nearest,
};

/// Headers are numbered by a byte, and two are there by default.
const MAX_HEADERS: usize = 250;

/// All keys of a route; those that say where to depend on the sink's kind.
const KEYS: [&str; 7] = ["match", "sink", "topic", "key", "exchange", "routing_key", "headers"];

/// All routes in the file's order; where there are none, EventRouter's default to the only sink.
pub(super) fn routes(
    root: &Fields<'_>,
    sinks: &[(String, SinkConfig)],
) -> Result<Vec<RouteConfig>, ConfigError> {
    let field = match (root.get("routes"), sinks) {
        (Some(field), _) => field,
        (None, [(_, sink)]) => return Ok(vec![RouteConfig::to(0, sink)]),
        (None, _) => root.need("routes")?,
    };
    let mut routes: Vec<RouteConfig> = Vec::new();
    let mut catch_all = None;
    for item in field.list()? {
        if let Some(Location { line, .. }) = catch_all {
            let must = format!("is never reached: the route in line {line} matches every event");
            return Err(item.invalid(&must));
        }
        let route = route(&item, sinks)?;
        catch_all = route.matches.is_empty().then_some(item.node.location);
        routes.push(route);
    }
    if routes.is_empty() { Err(field.invalid("must have a route")) } else { Ok(routes) }
}

impl RouteConfig {
    /// EventRouter's default, to the sink with this index.
    fn to(index: usize, sink: &SinkConfig) -> Self {
        let target = match sink {
            SinkConfig::RabbitMq(_) => {
                TargetConfig::Exchange { exchange: default_name(), routing_key: empty() }
            }
            SinkConfig::Kafka(_) | SinkConfig::Stdout | SinkConfig::Null => {
                TargetConfig::Topic { topic: default_name(), key: None }
            }
        };
        Self { matches: Vec::new(), sink: index, target, headers: Vec::new() }
    }
}

/// `outbox.event.${aggregate_type}`: EventRouter's topic, and the exchange that Debezium Server
/// makes of it.
fn default_name() -> TemplateText {
    let prefix = TemplatePart::Literal("outbox.event.".to_owned());
    let placeholder = TemplatePart::Placeholder("aggregate_type".to_owned());
    TemplateText { parts: vec![prefix, placeholder], location: Location::default() }
}

/// Debezium Server's routing key.
fn empty() -> TemplateText {
    TemplateText { parts: Vec::new(), location: Location::default() }
}

fn route(item: &Field<'_>, sinks: &[(String, SinkConfig)]) -> Result<RouteConfig, ConfigError> {
    let fields = item.fields(&KEYS)?;
    let index = match (fields.get("sink"), sinks) {
        (None, [_]) => 0,
        _ => sink(&fields.need("sink")?, sinks)?,
    };
    Ok(RouteConfig {
        matches: fields.read("match", conditions)?.unwrap_or_default(),
        target: match sinks.get(index) {
            Some((name, SinkConfig::RabbitMq(_))) => exchange(&fields, name)?,
            Some((name, _)) => topic(&fields, name)?,
            None => return Err(item.invalid("has no sink")),
        },
        headers: fields.read("headers", headers)?.unwrap_or_default(),
        sink: index,
    })
}

fn topic(fields: &Fields<'_>, sink: &str) -> Result<TargetConfig, ConfigError> {
    refuse(fields, ["exchange", "routing_key"], |key| {
        format!(
            "`{key}` belongs to a `rabbitmq` sink, and `{sink}` is none: it takes `topic` and `key`"
        )
    })?;
    Ok(TargetConfig::Topic {
        topic: fields.read("topic", Field::template)?.unwrap_or_else(default_name),
        key: fields.read("key", Field::template)?,
    })
}

fn exchange(fields: &Fields<'_>, sink: &str) -> Result<TargetConfig, ConfigError> {
    refuse(fields, ["topic", "key"], |key| {
        format!(
            "`{key}` means nothing to the `rabbitmq` sink `{sink}`: it takes `exchange` and `routing_key`"
        )
    })?;
    let exchange = fields.read("exchange", Field::template)?.unwrap_or_else(default_name);
    let routing_key = fields.read("routing_key", Field::template)?;
    if let Some(field) = fields.get("exchange")
        && exchange.parts.is_empty()
        && routing_key.as_ref().is_none_or(|key| key.parts.is_empty())
    {
        let must = "is the default exchange, whose `routing_key` is the name of a queue: add it";
        return Err(field.invalid(must));
    }
    Ok(TargetConfig::Exchange { exchange, routing_key: routing_key.unwrap_or_else(empty) })
}

/// Complains about the first of `keys` that is there.
fn refuse(
    fields: &Fields<'_>,
    keys: [&str; 2],
    message: impl Fn(&str) -> String,
) -> Result<(), ConfigError> {
    match keys.into_iter().find_map(|key| Some((key, fields.get(key)?))) {
        Some((key, field)) => Err(ConfigError::invalid(field.key_location, message(key))),
        None => Ok(()),
    }
}

fn sink(field: &Field<'_>, sinks: &[(String, SinkConfig)]) -> Result<usize, ConfigError> {
    if field.is_list() {
        let problem = Problem::NotYet("sink: [a, b]".to_owned());
        return Err(ConfigError::at(field.node.location, problem));
    }
    let name = field.text()?;
    sinks.iter().position(|(sink, _)| *sink == name).ok_or_else(|| {
        let nearest = nearest(&name, sinks.iter().map(|(sink, _)| sink.as_str()));
        let (what, nearest) = ("sink".to_owned(), nearest.map(str::to_owned));
        ConfigError::at(field.node.location, Problem::UnknownName { what, name, nearest })
    })
}

fn conditions(field: &Field<'_>) -> Result<Vec<Condition>, ConfigError> {
    let mut conditions = Vec::new();
    for (column, value) in field.named()? {
        let (column, location) = (column.to_owned(), value.key_location);
        conditions.push(Condition { column, accepts: accepts(&value)?, location });
    }
    if conditions.is_empty() {
        return Err(field.invalid("must name a column; without `match`, a route takes every event"));
    }
    Ok(conditions)
}

fn accepts(value: &Field<'_>) -> Result<MatchConfig, ConfigError> {
    if value.is_map() {
        let pattern = value.fields(&["regex"])?.need("regex")?;
        return regex(&pattern).map(MatchConfig::Regex);
    }
    if !value.is_list() {
        return value.text().map(MatchConfig::Value);
    }
    let values = value.texts()?;
    if values.is_empty() {
        Err(value.invalid("must list a value"))
    } else {
        Ok(MatchConfig::List(values))
    }
}

/// The pattern, anchored so that it matches a whole value.
fn regex(field: &Field<'_>) -> Result<Regex, ConfigError> {
    let pattern = field.text()?;
    // Alone first: unbalanced brackets must not balance against ours.
    Regex::new(&pattern)
        .and_then(|_| Regex::new(&format!(r"\A(?:{pattern})\z")))
        .map_err(|error| field.invalid(&format!("is no regular expression: {}", reason(&error))))
}

/// The last line of the crate's explanation, which draws the pattern above it.
fn reason(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}

fn headers(field: &Field<'_>) -> Result<Vec<(String, TemplateText)>, ConfigError> {
    let mut headers = Vec::new();
    for (name, header) in field.named()? {
        headers.push((name.to_owned(), header.template()?));
    }
    if headers.len() > MAX_HEADERS {
        return Err(field.invalid(&format!("can have at most {MAX_HEADERS} headers")));
    }
    Ok(headers)
}
