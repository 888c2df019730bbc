//! One JSON line an event.
use super::DeliveryId;
use crate::routing::RoutedEvent;
use std::time::Duration;
/// A running stdout sink.
#[derive(Debug)]
pub struct StdoutSink;
impl StdoutSink {
    /// enqueue
    pub fn enqueue(&mut self, _id: DeliveryId, _event: &RoutedEvent) -> bool {
        false
    }
    /// seal
    pub fn seal(&mut self) {}
    /// stop
    pub async fn stop(self, _grace: Duration) {}
}
