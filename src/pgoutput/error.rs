//! Why bytes are not a message.

/// Bytes that are not a message of protocol 1.
///
/// Only a broken connection, a broken server or another plugin can bring one about; going on after
/// it would mean to skip something unseen, so it ends the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// No byte at all.
    #[error("pgoutput message without a kind byte")]
    Empty,
    /// A kind byte that protocol 1 does not have.
    #[error("unknown pgoutput message kind {0:#04x}")]
    Kind(u8),
    /// The message ends too early.
    #[error("pgoutput {message} message ends inside its {field}")]
    Truncated {
        /// The kind of message.
        message: &'static str,
        /// The part that is not whole.
        field: &'static str,
    },
    /// The message should have ended.
    #[error("{bytes} bytes follow a pgoutput {message} message")]
    Trailing {
        /// The kind of message.
        message: &'static str,
        /// How many.
        bytes: usize,
    },
    /// A text in another encoding than the one we asked for.
    #[error("{field} of a pgoutput {message} message is not UTF-8")]
    NotUtf8 {
        /// The kind of message.
        message: &'static str,
        /// The text.
        field: &'static str,
    },
    /// A length or count below zero.
    #[error("{field} of a pgoutput {message} message is {value}")]
    Negative {
        /// The kind of message.
        message: &'static str,
        /// The length or count.
        field: &'static str,
        /// What it says.
        value: i32,
    },
    /// A byte that chooses between forms is none of those known.
    #[error("{field} of a pgoutput {message} message is {byte:#04x}")]
    Unexpected {
        /// The kind of message.
        message: &'static str,
        /// What the byte chooses.
        field: &'static str,
        /// The byte found.
        byte: u8,
    },
}
