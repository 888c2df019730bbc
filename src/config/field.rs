//! Typed reading of one value, and of a map whose keys are known.

use std::time::Duration;

use super::expand::Expander;
use super::node::{Content, Entry, Node};
use super::{ConfigError, Location, Problem, Secret, TemplateText, nearest, unit};

/// Keys of releases to come, wherever they will stand: to be told from mistyped ones.
const LATER: [&str; 10] = [
    "cloudevents",
    "delivery",
    "drop",
    "envelope",
    "expand_json",
    "messages",
    "on_null_payload",
    "partition",
    "timestamp",
    "tombstone_on_empty",
];

/// One value, with the path of keys that leads to it.
#[derive(Clone)]
pub(super) struct Field<'a> {
    pub(super) path: String,
    /// Where its key stands, or the value itself where it has none.
    pub(super) key_location: Location,
    pub(super) node: &'a Node,
    pub(super) expander: &'a Expander<'a>,
}

impl<'a> Field<'a> {
    /// The whole file.
    pub(super) fn root(node: &'a Node, expander: &'a Expander<'a>) -> Self {
        Self { path: String::new(), key_location: node.location, node, expander }
    }

    /// The value as a map that has only `known` keys; an empty value is an empty map.
    pub(super) fn fields(&self, known: &'static [&'static str]) -> Result<Fields<'a>, ConfigError> {
        let entries = self.entries()?;
        match entries.iter().find(|entry| !known.contains(&entry.key.as_str())) {
            Some(entry) => Err(unexpected_key(entry, known)),
            None => Ok(Fields { field: self.clone(), entries }),
        }
    }

    /// The value as a map with names of the user's.
    pub(super) fn named(&self) -> Result<Vec<(&'a str, Field<'a>)>, ConfigError> {
        Ok(self.entries()?.iter().map(|entry| (entry.key.as_str(), self.child(entry))).collect())
    }

    /// The value as a list.
    pub(super) fn list(&self) -> Result<Vec<Field<'a>>, ConfigError> {
        let Content::List(items) = &self.node.content else {
            return Err(self.wrong_type("a list"));
        };
        let item = |(index, node): (usize, &'a Node)| Field {
            path: format!("{}[{index}]", self.path),
            key_location: node.location,
            node,
            expander: self.expander,
        };
        Ok(items.iter().enumerate().map(item).collect())
    }

    /// The value as texts: a list of them, or a single one.
    pub(super) fn texts(&self) -> Result<Vec<String>, ConfigError> {
        if !self.is_list() {
            return Ok(vec![self.text()?]);
        }
        self.list()?.iter().map(Field::text).collect()
    }

    /// The value as text, expanded.
    pub(super) fn text(&self) -> Result<String, ConfigError> {
        let Content::Scalar(scalar) = &self.node.content else {
            return Err(self.wrong_type("a single value"));
        };
        self.expander.text(self.node, &scalar.text)
    }

    /// The value as text that is not empty.
    pub(super) fn filled_text(&self) -> Result<String, ConfigError> {
        let text = self.text()?;
        if text.is_empty() { Err(self.invalid("must not be empty")) } else { Ok(text) }
    }

    /// The value as a text that is never shown.
    pub(super) fn secret(&self) -> Result<Secret, ConfigError> {
        self.text().map(Secret::new)
    }

    /// The value as a template.
    pub(super) fn template(&self) -> Result<TemplateText, ConfigError> {
        if !matches!(self.node.content, Content::Scalar(_)) {
            return Err(self.wrong_type("a single value"));
        }
        let parts = self.expander.template(self.node)?;
        Ok(TemplateText { parts, location: self.node.location })
    }

    /// The value as a duration of at least `least`.
    pub(super) fn duration(&self, least: Duration) -> Result<Duration, ConfigError> {
        let text = self.text()?;
        let duration = unit::duration(&text)
            .ok_or_else(|| self.invalid("must be a duration, as in `30s`, `250ms` or `5m`"))?;
        if duration < least {
            return Err(self.invalid(&format!("must be at least {least:?}")));
        }
        Ok(duration)
    }

    /// The value as a number of bytes from `least` to `most`.
    pub(super) fn size(&self, least: usize, most: usize) -> Result<usize, ConfigError> {
        let text = self.text()?;
        let size = unit::size(&text)
            .ok_or_else(|| self.invalid("must be a size, as in `8MiB` or `16MB`"))?;
        if !(least..=most).contains(&size) {
            let (least, most) = (unit::show_size(least), unit::show_size(most));
            return Err(self.invalid(&format!("must be from {least} to {most}")));
        }
        Ok(size)
    }

    /// The value as a whole number above zero.
    pub(super) fn count(&self) -> Result<usize, ConfigError> {
        match self.text()?.parse() {
            Ok(count) if count > 0 => Ok(count),
            _ => Err(self.invalid("must be a whole number above 0")),
        }
    }

    /// The value as one of a few words.
    pub(super) fn choice<T: Copy>(&self, choices: &[(&'static str, T)]) -> Result<T, ConfigError> {
        let text = self.text()?;
        let known = || choices.iter().map(|(word, _)| *word);
        if let Some((_, choice)) = choices.iter().find(|(word, _)| *word == text) {
            return Ok(*choice);
        }
        let nearest = nearest(&text, known()).map(str::to_owned);
        let what = format!("value of `{}`", self.path);
        let words: Vec<String> = known().map(|word| format!("`{word}`")).collect();
        let problem = match nearest {
            Some(_) => Problem::UnknownName { what, name: text, nearest },
            None => Problem::Invalid(format!("`{}` must be {}", self.path, words.join(" or "))),
        };
        Err(ConfigError::at(self.node.location, problem))
    }

    /// Whether the value is a list.
    pub(super) fn is_list(&self) -> bool {
        matches!(self.node.content, Content::List(_))
    }

    /// Whether the value is a map.
    pub(super) fn is_map(&self) -> bool {
        matches!(self.node.content, Content::Map(_))
    }

    /// The error that this value `must …`, at the value.
    pub(super) fn invalid(&self, must: &str) -> ConfigError {
        ConfigError::invalid(self.node.location, format!("`{}` {must}", self.path))
    }

    fn wrong_type(&self, expected: &'static str) -> ConfigError {
        let found = self.node.kind();
        let key = if self.path.is_empty() { "the file".to_owned() } else { self.path.clone() };
        ConfigError::at(self.node.location, Problem::WrongType { key, expected, found })
    }

    fn entries(&self) -> Result<&'a [Entry], ConfigError> {
        match &self.node.content {
            Content::Map(entries) => Ok(entries),
            Content::Null => Ok(&[]),
            Content::Scalar(_) | Content::List(_) => Err(self.wrong_type("a map")),
        }
    }

    fn child(&self, entry: &'a Entry) -> Field<'a> {
        let path = if self.path.is_empty() {
            entry.key.clone()
        } else {
            format!("{}.{}", self.path, entry.key)
        };
        let Entry { location, value, .. } = entry;
        Field { path, key_location: *location, node: value, expander: self.expander }
    }
}

/// A map whose keys have been checked.
pub(super) struct Fields<'a> {
    field: Field<'a>,
    entries: &'a [Entry],
}

impl<'a> Fields<'a> {
    /// The value of `key`, if it is there.
    pub(super) fn get(&self, key: &str) -> Option<Field<'a>> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| self.field.child(entry))
    }

    /// The value of `key`.
    pub(super) fn need(&self, key: &str) -> Result<Field<'a>, ConfigError> {
        self.get(key).ok_or_else(|| {
            let Field { path, node, .. } = &self.field;
            let key = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
            ConfigError::at(node.location, Problem::Missing(key))
        })
    }

    /// The value of `key` as `read` reads it.
    pub(super) fn read<T>(
        &self,
        key: &str,
        read: impl FnOnce(&Field<'a>) -> Result<T, ConfigError>,
    ) -> Result<Option<T>, ConfigError> {
        self.get(key).map(|field| read(&field)).transpose()
    }

    /// All values, in the file's order.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'a str, Field<'a>)> {
        self.entries.iter().map(|entry| (entry.key.as_str(), self.field.child(entry)))
    }
}

fn unexpected_key(entry: &Entry, known: &[&str]) -> ConfigError {
    let key = entry.key.clone();
    let problem = if LATER.contains(&key.as_str()) {
        Problem::NotYet(key)
    } else {
        let nearest = nearest(&key, known.iter().copied()).map(str::to_owned);
        Problem::UnknownKey { key, nearest }
    };
    ConfigError::at(entry.location, problem)
}
