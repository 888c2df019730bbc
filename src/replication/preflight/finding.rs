//! One line of a preflight.

use std::fmt;

use serde::Serialize;

use crate::failure::{Class, Failure};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be.
    Ok,
    /// `run` starts, but somebody should look.
    Warning,
    /// `run` does not start, or an event would halt it.
    Error,
}

/// What was found about one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about: "slot `orders`".
    pub subject: String,
    /// What was found.
    pub message: String,
    /// What to type.
    pub fix: Option<String>,
    /// What an error means for `run`.
    #[serde(skip)]
    pub class: Class,
}

impl Finding {
    /// As it should be.
    pub fn ok(subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Severity::Ok, subject, message)
    }

    /// Not wrong, but worth a look.
    pub fn warning(subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, subject, message)
    }

    /// An error that an operator can mend.
    pub fn error(subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, subject, message)
    }

    /// A failure, with its hint as the fix; where its message begins with the subject, that is not
    /// said twice.
    pub fn from_failure(subject: impl Into<String>, failure: &Failure) -> Self {
        let (subject, message) = (subject.into(), failure.to_string());
        let rest = message.strip_prefix(&*subject).map(|rest| rest.trim_start_matches([' ', ':']));
        let message = rest.unwrap_or(&message).to_owned();
        Self {
            fix: failure.way_out().map(str::to_owned),
            class: failure.class(),
            ..Self::error(subject, message)
        }
    }

    fn new(severity: Severity, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity,
            subject: subject.into(),
            message: message.into(),
            fix: None,
            class: Class::Fixable,
        }
    }

    /// What to type.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// What the error means for `run`, where that is not [`Class::Fixable`].
    #[must_use]
    pub fn class(mut self, class: Class) -> Self {
        self.class = class;
        self
    }

    /// The finding as a failure.
    pub fn failure(&self) -> Failure {
        let failure = Failure::new(self.class, format!("{}: {}", self.subject, self.message));
        match &self.fix {
            Some(fix) => failure.hint(fix.clone()),
            None => failure,
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// `ok       slot `orders`: …`, and the fix on a line of its own.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:8} {}: {}", self.severity, self.subject, self.message)?;
        match &self.fix {
            Some(fix) => write!(f, "\n{:8} fix: {fix}", ""),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_names_the_subject_does_not_name_it_twice() {
        let failure = Failure::definite("slot `orders` is gone").hint("begin afresh");
        let finding = Finding::from_failure("slot `orders`", &failure);
        assert_eq!(finding.message, "is gone");
        assert_eq!(finding.failure().to_string(), "slot `orders`: is gone");
        assert_eq!(finding.failure().class(), Class::Definite);
    }

    #[test]
    fn a_line_begins_with_how_bad_it_is() {
        let finding = Finding::error("slot `orders`", "is of plugin `wal2json`").fix("drop it");
        assert_eq!(
            finding.to_string(),
            "error    slot `orders`: is of plugin `wal2json`\n         fix: drop it"
        );
        assert_eq!(
            Finding::ok("server", "PostgreSQL 18.6").to_string(),
            "ok       server: PostgreSQL 18.6"
        );
    }
}
