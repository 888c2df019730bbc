//! The commands: what they take, print and exit with.

mod columns;
pub mod init;
pub mod check;
