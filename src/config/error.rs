//! What is wrong with a configuration, and where.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::{Location, did_you_mean};
use crate::failure::Failure;

/// One mistake in a configuration: `pgoutbox.yaml:7:5: unknown key `slotname`, did you mean `slot`?`.
///
/// The text never shows a value that may be a secret, and no line of the file.
#[derive(Debug, thiserror::Error)]
#[error("{}{problem}", Place(.file.as_deref(), *.location))]
pub struct ConfigError {
    file: Option<PathBuf>,
    location: Location,
    problem: Problem,
}

/// What is wrong.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    /// It is not YAML.
    #[error("not valid YAML: {0}")]
    Syntax(String),
    /// A key that is not known here.
    #[error("unknown key `{key}`{}", did_you_mean(.nearest.as_deref()))]
    UnknownKey {
        /// The key.
        key: String,
        /// The known key most like it.
        nearest: Option<String>,
    },
    /// A key that is planned, but not in this release.
    #[error("`{0}` is not supported yet")]
    NotYet(String),
    /// A key that must be there.
    #[error("`{0}` is missing")]
    Missing(String),
    /// A value of the wrong kind.
    #[error("`{key}` must be {expected}, not {found}")]
    WrongType {
        /// Path of the key.
        key: String,
        /// What it must be.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// A name that refers to nothing.
    #[error("unknown {what} `{name}`{}", did_you_mean(.nearest.as_deref()))]
    UnknownName {
        /// What it should have been, as `sink`.
        what: String,
        /// The name.
        name: String,
        /// The known name most like it.
        nearest: Option<String>,
    },
    /// A column that the configuration refers to and the table does not have.
    #[error("table `{table}` has no column `{column}`{}", did_you_mean(.nearest.as_deref()))]
    NoColumn {
        /// `schema.table`.
        table: String,
        /// The column.
        column: String,
        /// The table's column most like it.
        nearest: Option<String>,
    },
    /// A value that is wrong for the reason given.
    #[error("{0}")]
    Invalid(String),
}

impl ConfigError {
    /// `problem` at `location`.
    pub(crate) fn at(location: Location, problem: Problem) -> Self {
        Self { file: None, location, problem }
    }

    /// [`Problem::Invalid`] at `location`.
    pub(crate) fn invalid(location: Location, message: impl Into<String>) -> Self {
        Self::at(location, Problem::Invalid(message.into()))
    }

    /// The same in `file`.
    #[must_use]
    pub(crate) fn in_file(mut self, file: Option<&Path>) -> Self {
        self.file = file.map(Path::to_owned);
        self
    }

    /// Where it stands; zeros where it has no place of its own.
    pub fn location(&self) -> Location {
        self.location
    }

    /// What is wrong.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        Self::at(Location::default(), problem)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::configuration(error.to_string())
    }
}

/// `file:line:column: `, as far as they are known.
struct Place<'a>(Option<&'a Path>, Location);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(file, Location { line, column }) = self;
        if let Some(file) = file {
            write!(f, "{}:", file.display())?;
        }
        if *line > 0 {
            write!(f, "{line}:{column}:")?;
        }
        if file.is_some() || *line > 0 { f.write_str(" ") } else { Ok(()) }
    }
}
