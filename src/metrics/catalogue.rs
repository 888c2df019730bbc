//! What metrics there are, whether they have a sample yet or not.
//!
//! A family without samples is not rendered, so what is scraped never shows all of them. Rules,
//! dashboards and the documented table are held against this list.

use std::cell::RefCell;

use prometheus::Registry;
use prometheus::core::Collector;
use prometheus::proto::MetricType;

/// One metric family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    /// Its name, `pgoutbox_` included. A histogram's samples have `_bucket`, `_sum` or `_count`
    /// behind it.
    pub name: String,
    /// `counter`, `gauge` or `histogram`, as in Prometheus' text format.
    pub kind: &'static str,
    /// Its labels, but for `relay`, which all have.
    pub labels: Vec<String>,
}

/// A registry that keeps a list of what it holds.
pub(super) struct Catalogue {
    registry: Registry,
    families: RefCell<Vec<Family>>,
}

impl Catalogue {
    pub(super) fn new(registry: Registry) -> Self {
        Self { registry, families: RefCell::default() }
    }

    pub(super) fn register<C: Collector + Clone + 'static>(
        &self,
        collector: C,
    ) -> Result<C, prometheus::Error> {
        self.registry.register(Box::new(collector.clone()))?;
        self.families.borrow_mut().extend(families_of(&collector));
        Ok(collector)
    }

    /// All that was registered, by name.
    pub(super) fn into_families(self) -> Vec<Family> {
        let mut families = self.families.into_inner();
        families.sort_by(|one, other| one.name.cmp(&other.name));
        families
    }
}

/// A collector has a description for each of its families, in the same order.
fn families_of(collector: &impl Collector) -> Vec<Family> {
    let described = collector.desc().into_iter().zip(collector.collect());
    let family = described.map(|(description, family)| Family {
        // What the registry puts before every name.
        name: format!("{}_{}", super::PREFIX, description.fq_name),
        kind: kind(family.get_field_type()),
        labels: description.variable_labels.clone(),
    });
    family.collect()
}

fn kind(of: MetricType) -> &'static str {
    match of {
        MetricType::COUNTER => "counter",
        MetricType::GAUGE => "gauge",
        MetricType::HISTOGRAM => "histogram",
        MetricType::SUMMARY => "summary",
        MetricType::UNTYPED => "untyped",
    }
}
