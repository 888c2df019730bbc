//! `${env:NAME}`, `${env:NAME:-default}` and `${file:PATH}`, and the parts of a template.
//!
//! A scalar is expanded once, after the file has been parsed: what comes in is text, cannot add
//! keys, and is never looked at again. So a secret may hold anything, `${` too.

use std::path::PathBuf;

use super::input::Inputs;
use super::node::{Content, Node};
use super::{ConfigError, TemplatePart};

/// Where expansions come from.
pub(super) struct Expander<'a> {
    /// The environment.
    pub(super) env: &'a dyn Fn(&str) -> Option<String>,
    /// What a relative `${file:…}` is relative to.
    pub(super) base: PathBuf,
    /// Files that were read.
    pub(super) inputs: Inputs,
}

impl Expander<'_> {
    /// `text`, which is the scalar `node`'s, with everything put in.
    pub(super) fn text(&self, node: &Node, text: &str) -> Result<String, ConfigError> {
        let mut expanded = String::with_capacity(text.len());
        for piece in pieces(node, text, Dollars::AsTheyAre)? {
            match piece {
                Piece::Literal(literal) => expanded.push_str(literal),
                // The name is not repeated: it may be a piece of a secret.
                Piece::Reference(offset, inner) => match self.value(node, offset, inner)? {
                    Some(value) => expanded.push_str(&value),
                    None => return Err(not_an_expansion(node, offset)),
                },
            }
        }
        Ok(expanded)
    }

    /// The parts of the template `node`; `$$` is a dollar.
    pub(super) fn template(&self, node: &Node) -> Result<Vec<TemplatePart>, ConfigError> {
        let Content::Scalar(scalar) = &node.content else { return Ok(Vec::new()) };
        let mut parts = Vec::new();
        for piece in pieces(node, &scalar.text, Dollars::Doubled)? {
            match piece {
                Piece::Literal(literal) => push_literal(&mut parts, literal),
                Piece::Reference(offset, inner) => match self.value(node, offset, inner)? {
                    Some(value) => push_literal(&mut parts, &value),
                    None if inner.is_empty() => {
                        let message = "`${}` names no column";
                        return Err(ConfigError::invalid(node.location_within(offset), message));
                    }
                    None => parts.push(TemplatePart::Placeholder(inner.to_owned())),
                },
            }
        }
        Ok(parts)
    }

    /// What stands for `${inner}`; `None` where that is neither `env:` nor `file:`.
    fn value(
        &self,
        node: &Node,
        offset: usize,
        inner: &str,
    ) -> Result<Option<String>, ConfigError> {
        let found = if let Some(reference) = inner.strip_prefix("env:") {
            self.variable(reference)
        } else if let Some(path) = inner.strip_prefix("file:") {
            self.file(path)
        } else {
            return Ok(None);
        };
        found
            .map(Some)
            .map_err(|message| ConfigError::invalid(node.location_within(offset), message))
    }

    /// `NAME` or `NAME:-default`; as in a shell, `:-` also stands in for an empty variable.
    fn variable(&self, reference: &str) -> Result<String, String> {
        let (name, default) = match reference.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (reference, None),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_name) {
            return Err("`${env:…}` needs the name of an environment variable".to_owned());
        }
        let value = (self.env)(name);
        match (value, default) {
            (Some(value), Some(default)) if value.is_empty() => Ok(default.to_owned()),
            (Some(value), _) => Ok(value),
            (None, Some(default)) => Ok(default.to_owned()),
            (None, None) => Err(format!("environment variable `{name}` is not set")),
        }
    }

    /// The file's text without one newline at its end.
    fn file(&self, path: &str) -> Result<String, String> {
        if path.is_empty() {
            return Err("`${file:…}` needs a path".to_owned());
        }
        let file = self.base.join(path);
        let mut text = std::fs::read_to_string(&file)
            .map_err(|error| format!("file `{path}` cannot be read: {error}"))?;
        self.inputs.add(file, text.as_bytes());
        if text.ends_with('\n') {
            text.pop();
            if text.ends_with('\r') {
                text.pop();
            }
        }
        Ok(text)
    }
}

/// What `$$` is.
#[derive(Clone, Copy, PartialEq)]
enum Dollars {
    /// Two dollars.
    AsTheyAre,
    /// One dollar.
    Doubled,
}

enum Piece<'a> {
    Literal(&'a str),
    /// The text between `${` and `}`, and the offset of the dollar.
    Reference(usize, &'a str),
}

fn pieces<'a>(node: &Node, text: &'a str, dollars: Dollars) -> Result<Vec<Piece<'a>>, ConfigError> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        let (before, from) = rest.split_at(dollar);
        pieces.push(Piece::Literal(before));
        let offset = text.len() - from.len();
        rest = if let Some(reference) = from.strip_prefix("${") {
            let Some((inner, tail)) = reference.split_once('}') else {
                let message = "`${` without its `}`";
                return Err(ConfigError::invalid(node.location_within(offset), message));
            };
            pieces.push(Piece::Reference(offset, inner));
            tail
        } else {
            pieces.push(Piece::Literal("$"));
            let doubled = if dollars == Dollars::Doubled { from.strip_prefix("$$") } else { None };
            doubled.or(from.strip_prefix('$')).unwrap_or_default()
        };
    }
    pieces.push(Piece::Literal(rest));
    Ok(pieces)
}

fn push_literal(parts: &mut Vec<TemplatePart>, literal: &str) {
    match parts.last_mut() {
        _ if literal.is_empty() => {}
        Some(TemplatePart::Literal(last)) => last.push_str(literal),
        _ => parts.push(TemplatePart::Literal(literal.to_owned())),
    }
}

fn not_an_expansion(node: &Node, offset: usize) -> ConfigError {
    let message = "here `${…}` can only be `${env:NAME}`, `${env:NAME:-default}` or `${file:PATH}`; \
                   a text with `${` in it can come from one of those";
    ConfigError::invalid(node.location_within(offset), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(text: &str) -> Node {
        Node::parse(&serde_json::to_string(text).unwrap()).unwrap()
    }

    fn expander<'a>(env: &'a dyn Fn(&str) -> Option<String>, base: PathBuf) -> Expander<'a> {
        Expander { env, base, inputs: Inputs::default() }
    }

    fn expand(text: &str) -> Result<String, String> {
        let env = |name: &str| match name {
            "SECRET" => Some("a${env:USER}$$".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        let expander = expander(&env, PathBuf::new());
        expander.text(&node(text), text).map_err(|error| error.to_string())
    }

    #[test]
    fn what_comes_in_is_not_expanded_again() {
        assert_eq!(expand("x${env:SECRET}y").unwrap(), "xa${env:USER}$$y");
    }

    #[test]
    fn a_default_stands_in_for_an_unset_and_an_empty_variable() {
        assert_eq!(expand("${env:UNSET:-localhost:9092}").unwrap(), "localhost:9092");
        assert_eq!(expand("${env:EMPTY:-x}").unwrap(), "x");
        assert_eq!(expand("<${env:EMPTY}>${env:UNSET:-}").unwrap(), "<>");
    }

    #[test]
    fn dollars_alone_are_dollars() {
        assert_eq!(expand("a$b$$c$").unwrap(), "a$b$$c$");
    }

    #[test]
    fn a_placeholder_outside_a_template_is_not_repeated_in_the_error() {
        let error = expand("pa${ss}word").unwrap_err();
        assert!(error.starts_with("1:4: here `${…}` can only be"), "{error}");
        assert!(!error.contains("ss}"), "{error}");
        assert_eq!(expand("pa${ss").unwrap_err(), "1:4: `${` without its `}`");
    }

    #[test]
    fn a_file_loses_one_newline_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("secret"), "  a\n\n").unwrap();
        let env = |_: &str| None;
        let expander = expander(&env, folder.path().to_owned());
        let text = "${file:secret}|";
        assert_eq!(expander.text(&node(text), text).unwrap(), "  a\n|");
        let text = "${file:absent}";
        let error = expander.text(&node(text), text).unwrap_err().to_string();
        assert!(error.starts_with("1:2: file `absent` cannot be read: "), "{error}");
    }

    #[test]
    fn a_template_takes_expansions_as_literals() {
        let env = |_: &str| Some("${id}".to_owned());
        let expander = expander(&env, PathBuf::new());
        let parts = expander.template(&node("$$${env:X}.${event_type}$.$")).unwrap();
        let literal = |text: &str| TemplatePart::Literal(text.to_owned());
        let placeholder = TemplatePart::Placeholder("event_type".to_owned());
        assert_eq!(parts, [literal("$${id}."), placeholder, literal("$.$")]);
    }
}
