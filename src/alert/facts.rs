//! What the engine judges: a reading of every metric, with what is behind it in words.

use std::collections::BTreeMap;

use crate::config::AlertMetric;

/// One metric at one moment.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reading {
    /// The figure is known.
    Known(f64, Finding),
    /// There is no such figure since nothing is wrong: a limit that is not drawn nearer to.
    Fine,
    /// It could not be had: neither good nor bad news.
    Unknown,
}

/// What a figure means, never with a payload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Finding {
    /// A sentence that names the thing and shows the figure.
    pub(super) headline: String,
    /// What is behind it, as far as that is known; may be empty.
    pub(super) cause: String,
    /// What to type.
    pub(super) fix: Option<String>,
}

impl Finding {
    pub(super) fn new(headline: impl Into<String>) -> Self {
        Self { headline: headline.into(), cause: String::new(), fix: None }
    }

    pub(super) fn cause(mut self, cause: impl Into<String>) -> Self {
        self.cause = cause.into();
        self
    }

    pub(super) fn fix(mut self, fix: Option<String>) -> Self {
        self.fix = fix;
        self
    }
}

/// Readings of all metrics.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts(BTreeMap<AlertMetric, Reading>);

impl Facts {
    pub(super) fn set(&mut self, metric: AlertMetric, reading: Reading) {
        self.0.insert(metric, reading);
    }

    /// The figure where it is known, and `Unknown` where it is not.
    pub(super) fn known(
        &mut self,
        metric: AlertMetric,
        value: Option<f64>,
        finding: impl FnOnce(&str) -> Finding,
    ) {
        let reading = value
            .map_or(Reading::Unknown, |value| Reading::Known(value, finding(&metric.show(value))));
        self.set(metric, reading);
    }

    /// 1 or 0.
    pub(super) fn flag(&mut self, metric: AlertMetric, is_set: bool, finding: Finding) {
        self.set(metric, Reading::Known(f64::from(u8::from(is_set)), finding));
    }

    /// The reading of `metric`; what was not looked at is not known.
    pub(super) fn get(&self, metric: AlertMetric) -> &Reading {
        self.0.get(&metric).unwrap_or(&Reading::Unknown)
    }
}
