//! Watches the relay's slot on an ordinary connection of its own, and tells how long is left.

mod report;

pub use report::{Decoding, HoldingTransaction, SlotFigures, SlotReport, Walsender};
