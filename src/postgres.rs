//! How PostgreSQL is reached: connection settings, TLS, ordinary SQL sessions, its errors by class.
//!
//! The replication connection speaks its own protocol but takes the same [`Settings`], the same
//! [`tls::client_config`] and the same classes of SQLSTATE, so that the two kinds of connection can
//! never disagree about where they go or what an answer means.

mod conninfo;
mod settings;
pub mod tls;
mod error;
mod ordinary;

pub use error::{classify, failure, from_fields};
pub use ordinary::{Session, connect};
pub use settings::{Host, Settings, SslMode, SslRootCert};
