//! Acknowledges everything.
use super::DeliveryId;
/// A running null sink.
#[derive(Debug)]
pub struct NullSink;
impl NullSink {
    /// enqueue
    pub fn enqueue(&mut self, _id: DeliveryId) -> bool {
        false
    }
    /// seal
    pub fn seal(&mut self) {}
}
