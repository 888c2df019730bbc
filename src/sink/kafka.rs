//! Apache Kafka.
use super::{DeliveryId, Lane};
use crate::routing::RoutedEvent;
use std::time::Duration;
/// A running Kafka sink.
#[derive(Debug)]
pub struct KafkaSink;
impl KafkaSink {
    /// lane
    pub fn lane(&mut self, _event: &RoutedEvent) -> Lane {
        Lane(0)
    }
    /// open
    pub fn is_open(&self, _lane: Lane) -> bool {
        true
    }
    /// enqueue
    pub fn enqueue(&mut self, _id: DeliveryId, _event: &RoutedEvent) -> bool {
        false
    }
    /// stop
    pub async fn stop(self, _grace: Duration) {}
}
