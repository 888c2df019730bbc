//! Faults on purpose, for the tests of the tests.
//!
//! A checker that never fails proves nothing. With the cargo feature `sabotage`, the environment
//! variable `PGOUTBOX_SABOTAGE` names one [`Fault`], and the place that commits it asks [`active`].
//! Without the feature `active` is the constant `false`, and the compiler removes the place.

/// A way to break a guarantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Confirms a transaction before its events are acknowledged.
    ConfirmEarly,
    /// Takes a failed delivery for an acknowledged one.
    SkipResend,
    /// Takes an event that a broker has returned, since it could not route it, for an acknowledged one.
    IgnoreReturn,
    /// Takes an event that a broker has refused (nack) for an acknowledged one.
    AcceptNack,
    /// Sends an event that came back behind later ones of its ordering key.
    ResendLate,
    /// Swaps two events of one ordering key.
    Reorder,
    /// Sends an event again with another payload.
    ChangeCopy,
    /// Delivers an event of a transaction that was rolled back.
    InventEvent,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 8] = [
        Self::ConfirmEarly,
        Self::SkipResend,
        Self::IgnoreReturn,
        Self::AcceptNack,
        Self::ResendLate,
        Self::Reorder,
        Self::ChangeCopy,
        Self::InventEvent,
    ];

    /// The fault's name in `PGOUTBOX_SABOTAGE`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ConfirmEarly => "confirm_early",
            Self::SkipResend => "skip_resend",
            Self::IgnoreReturn => "ignore_return",
            Self::AcceptNack => "accept_nack",
            Self::ResendLate => "resend_late",
            Self::Reorder => "reorder",
            Self::ChangeCopy => "change_copy",
            Self::InventEvent => "invent_event",
        }
    }

    /// The fault of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.name() == name)
    }
}

/// Whether this build can commit faults at all.
pub const IS_POSSIBLE: bool = cfg!(feature = "sabotage");

/// Whether `fault` is to be committed; never, without the feature `sabotage`.
#[cfg(not(feature = "sabotage"))]
pub const fn active(_fault: Fault) -> bool {
    false
}

/// Whether `fault` is the one that `PGOUTBOX_SABOTAGE` named when this was first asked.
#[cfg(feature = "sabotage")]
pub fn active(fault: Fault) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<Fault>> = std::sync::OnceLock::new();
    *CHOSEN.get_or_init(chosen) == Some(fault)
}

#[cfg(feature = "sabotage")]
fn chosen() -> Option<Fault> {
    let name = std::env::var("PGOUTBOX_SABOTAGE").ok()?;
    let fault = Fault::named(&name);
    match fault {
        Some(_) => tracing::warn!(fault = name, "guarantees are broken on purpose"),
        None => tracing::error!(fault = name, "no such fault, so nothing is broken on purpose"),
    }
    fault
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_found_by_its_name() {
        for fault in Fault::ALL {
            assert_eq!(Fault::named(fault.name()), Some(fault));
        }
        assert_eq!(Fault::named("none"), None);
    }

    #[test]
    fn nothing_is_broken_unless_it_was_asked_for() {
        assert!(Fault::ALL.into_iter().all(|fault| !active(fault)));
    }
}
