//! Failures sorted by what follows from them, not by where they arose.
//!
//! Every module has its own errors. At the points where somebody must decide (retry, halt, exit)
//! they become a [`Failure`]: one sentence that names the thing, a hint that can be typed, and a
//! [`Class`] that says what the relay does.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// What a failure means for the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Goes away by itself: retried with jittered backoff, order kept.
    Transient,
    /// An operator must mend something outside (a topic, a grant, a password): the relay exits at
    /// start, halts while running, and flows again by itself once it is mended.
    Fixable,
    /// Retrying cannot help (slot lost, other system): the relay exits at start and halts while
    /// running, with the recovery in the hint.
    Definite,
    /// One event can never be delivered.
    Poison,
    /// The configuration is wrong: exit code 2.
    Configuration,
}

/// One failure as an operator sees it.
///
/// `Display` gives the message with the chain of causes; the hint is separate, since it is shown
/// on a line of its own.
#[derive(Clone, Debug)]
pub struct Failure {
    // Failures are rare, and what could hold one (a result, a report) is not.
    parts: Box<Parts>,
}

#[derive(Clone, Debug)]
struct Parts {
    class: Class,
    message: String,
    code: Option<String>,
    hint: Option<String>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl Failure {
    /// A failure of `class`; `message` is a lower-case fragment that names the thing in backticks.
    pub fn new(class: Class, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { parts: Box::new(Parts { class, message, code: None, hint: None, source: None }) }
    }

    /// Short for [`Failure::new`] with [`Class::Transient`].
    pub fn transient(message: impl Into<String>) -> Self {
        Self::new(Class::Transient, message)
    }

    /// Short for [`Failure::new`] with [`Class::Fixable`].
    pub fn fixable(message: impl Into<String>) -> Self {
        Self::new(Class::Fixable, message)
    }

    /// Short for [`Failure::new`] with [`Class::Definite`].
    pub fn definite(message: impl Into<String>) -> Self {
        Self::new(Class::Definite, message)
    }

    /// Short for [`Failure::new`] with [`Class::Configuration`].
    pub fn configuration(message: impl Into<String>) -> Self {
        Self::new(Class::Configuration, message)
    }

    /// What the operator can type.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.parts.hint = Some(hint.into());
        self
    }

    /// The peer's own code: a SQLSTATE (`55006`) or a broker's error name.
    #[must_use]
    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.parts.code = Some(code.into());
        self
    }

    /// The error behind it.
    #[must_use]
    pub fn cause(mut self, cause: impl Error + Send + Sync + 'static) -> Self {
        self.parts.source = Some(Arc::new(cause));
        self
    }

    /// What follows from it.
    pub fn class(&self) -> Class {
        self.parts.class
    }

    /// The peer's own code, if it gave one.
    pub fn peer_code(&self) -> Option<&str> {
        self.parts.code.as_deref()
    }

    /// The way out, if there is one that can be typed.
    pub fn way_out(&self) -> Option<&str> {
        self.parts.hint.as_deref()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.parts.message)?;
        let mut source = self.parts.source.as_ref().map(|source| &**source as &dyn Error);
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        match &self.parts.code {
            Some(code) => write!(f, " ({code})"),
            None => Ok(()),
        }
    }
}

// The chain of causes is part of the text above, so `source` stays empty: a reporter that walks
// the chain must not print it twice.
impl Error for Failure {}
