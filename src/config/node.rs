//! The file as a tree in which everything still knows where it stands.
//!
//! It is built from the YAML parser's events, not by deserializing: a scalar stays the text that was
//! written (`password: 0123` keeps its zero), and a reader can complain about any key or value at
//! its own place.

use std::collections::HashMap;

use serde_saphyr::granit_parser::{
    self, Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput,
};

use super::{ConfigError, Location, Problem};

/// Most nodes of one file, aliases counted each time: far above any real file, and the end of one
/// made of aliases of aliases.
const MAX_NODES: usize = 100_000;

/// A value and where it begins.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) location: Location,
    pub(super) content: Content,
}

/// The forms of a value.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Nothing, or a bare `null`.
    Null,
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A scalar's text, of whatever YAML type.
#[derive(Clone, Debug)]
pub(super) struct Scalar {
    pub(super) text: String,
    /// Where the text begins, if it stands in the file as it is, on one line.
    verbatim: Option<Location>,
}

/// One key of a map, with its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) location: Location,
    pub(super) value: Node,
}

impl Node {
    /// Reads one document.
    pub(super) fn parse(text: &str) -> Result<Self, ConfigError> {
        let options = granit_parser::options! { emit_comments: false };
        let parser = Parser::new_from_str_with_options(text, options);
        Builder { text, parser, anchors: HashMap::new(), nodes: 0 }.document()
    }

    /// What it is, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self.content {
            Content::Null => "empty",
            Content::Scalar(_) => "a single value",
            Content::List(_) => "a list",
            Content::Map(_) => "a map",
        }
    }

    /// Where the byte `offset` of this scalar's text stands; the scalar's beginning where that
    /// cannot be told (escapes, several lines).
    pub(super) fn location_within(&self, offset: usize) -> Location {
        let Content::Scalar(Scalar { text, verbatim: Some(begin) }) = &self.content else {
            return self.location;
        };
        let before = text.get(..offset).map_or(0, |before| before.chars().count());
        let column = begin.column.saturating_add(u32::try_from(before).unwrap_or(u32::MAX));
        Location { column, ..*begin }
    }
}

struct Builder<'t> {
    text: &'t str,
    parser: Parser<'t, StrInput<'t>>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
}

impl<'t> Builder<'t> {
    fn document(mut self) -> Result<Node, ConfigError> {
        let empty = Node { location: Location { line: 1, column: 1 }, content: Content::Null };
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(root.unwrap_or(empty)),
                Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
                _ if root.is_some() => {
                    let message = "the file holds a second document; one relay has one";
                    return Err(ConfigError::invalid(begin(&span), message));
                }
                event => root = Some(self.node(event, &span)?),
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'t>, Span), ConfigError> {
        match self.parser.next_event() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => Err(self.syntax(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    /// The node that begins with `event`.
    fn node(&mut self, event: Event<'t>, span: &Span) -> Result<Node, ConfigError> {
        self.count(span)?;
        if let Some(tag) = event.tag().filter(|tag| !tag.is_yaml_core_schema()) {
            let message = format!("the tag `{}` means nothing here", tag.original());
            let tag_start = span.tag_start.unwrap_or(span.start);
            return Err(ConfigError::invalid(marked(&tag_start), message));
        }
        let anchor = event.anchor_id();
        let content = match event {
            Event::Alias(id) => return self.alias(id, span),
            Event::Scalar(text, style, _, tag) => {
                let plain = style == ScalarStyle::Plain && tag.is_none();
                match &*text {
                    "" | "~" | "null" | "Null" | "NULL" if plain => Content::Null,
                    _ => Content::Scalar(self.scalar(text.into_owned(), span)),
                }
            }
            Event::SequenceStart(..) => Content::List(self.list()?),
            Event::MappingStart(..) => Content::Map(self.map()?),
            _ => return Err(ConfigError::invalid(begin(span), "a value is missing here")),
        };
        let node = Node { location: begin(span), content };
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self) -> Result<Vec<Node>, ConfigError> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::SequenceEnd => return Ok(items),
                event => items.push(self.node(event, &span)?),
            }
        }
    }

    fn map(&mut self) -> Result<Vec<Entry>, ConfigError> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            let (key, location) = match event {
                Event::MappingEnd => return Ok(entries),
                Event::Scalar(key, ..) => (key.into_owned(), begin(&span)),
                _ => return Err(ConfigError::invalid(begin(&span), "a key must be a plain name")),
            };
            if let Some(first) = entries.iter().find(|entry| entry.key == key) {
                let message =
                    format!("`{key}` is here twice, first in line {}", first.location.line);
                return Err(ConfigError::invalid(location, message));
            }
            let (event, span) = self.next()?;
            let value = self.node(event, &span)?;
            entries.push(Entry { key, location, value });
        }
    }

    /// A copy of the node with this anchor. It counts as many nodes as it has.
    fn alias(&mut self, id: usize, span: &Span) -> Result<Node, ConfigError> {
        let Some(node) = self.anchors.get(&id).cloned() else {
            return Err(ConfigError::invalid(begin(span), "an alias within its own anchor"));
        };
        self.nodes = self.nodes.saturating_add(size(&node));
        self.count(span)?;
        Ok(node)
    }

    fn count(&mut self, span: &Span) -> Result<(), ConfigError> {
        self.nodes = self.nodes.saturating_add(1);
        if self.nodes <= MAX_NODES {
            return Ok(());
        }
        let message = format!("the file has more than {MAX_NODES} values");
        Err(ConfigError::invalid(begin(span), message))
    }

    fn scalar(&self, text: String, span: &Span) -> Scalar {
        let verbatim = self.verbatim(&text, span);
        Scalar { text, verbatim }
    }

    fn verbatim(&self, text: &str, span: &Span) -> Option<Location> {
        let source = self.text.get(span.start.byte_offset()?..)?;
        let unquoted = source.strip_prefix(['"', '\'']);
        let quote = u32::from(unquoted.is_some());
        let stands = unquoted.unwrap_or(source).starts_with(text) && !text.contains('\n');
        let Location { line, column } = begin(span);
        stands.then_some(Location { line, column: column.saturating_add(quote) })
    }

    fn syntax(&self, error: &ScanError) -> ConfigError {
        let at = marked(error.marker());
        let mut message = error.info();
        // The usual mistake: YAML ends a bare `${…}` at the brace inside `{…}` and `[…]`.
        let line = error.marker().line().checked_sub(1).and_then(|n| self.text.lines().nth(n));
        if line.is_some_and(|line| line.contains("${")) {
            message.push_str(" (inside `[…]` and `{…}`, put `\"…\"` around `${…}`)");
        }
        ConfigError::at(at, Problem::Syntax(message))
    }
}

/// Number of nodes in `node`.
fn size(node: &Node) -> usize {
    match &node.content {
        Content::Null | Content::Scalar(_) => 1,
        Content::List(items) => 1 + items.iter().map(size).sum::<usize>(),
        Content::Map(entries) => 1 + entries.iter().map(|entry| size(&entry.value)).sum::<usize>(),
    }
}

fn begin(span: &Span) -> Location {
    marked(&span.start)
}

/// The parser counts lines from 1 and columns from 0.
fn marked(marker: &Marker) -> Location {
    Location {
        line: u32::try_from(marker.line()).unwrap_or(u32::MAX),
        column: u32::try_from(marker.col()).map_or(u32::MAX, |column| column.saturating_add(1)),
    }
}
