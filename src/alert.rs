//! Alerts that the relay raises itself.
