//! Commits the faults of [`crate::sabotage`] that concern what is delivered.

use bytes::Bytes;

use crate::routing::RoutedEvent;
use crate::sabotage::{self, Fault};

/// What a relay broken on purpose keeps in mind.
#[derive(Debug, Default)]
pub(super) struct Saboteur {
    late: Option<RoutedEvent>,
}

impl Saboteur {
    /// What is delivered in place of `event`.
    pub(super) fn instead_of(&mut self, event: RoutedEvent) -> Vec<RoutedEvent> {
        if sabotage::active(Fault::Reorder) {
            return self.swapped(event);
        }
        if sabotage::active(Fault::ChangeCopy) {
            let value = [event.value.as_deref().unwrap_or_default(), b" "].concat();
            let copy = RoutedEvent { value: Some(Bytes::from(value)), ..event.clone() };
            return vec![event, copy];
        }
        if sabotage::active(Fault::InventEvent) {
            return vec![invented(event.clone()), event];
        }
        vec![event]
    }

    /// The first of two events of one key after the second.
    fn swapped(&mut self, event: RoutedEvent) -> Vec<RoutedEvent> {
        match self.late.take() {
            Some(late) if late.ordering_key == event.ordering_key => vec![event, late],
            Some(late) => {
                self.late = Some(late);
                vec![event]
            }
            None => {
                self.late = Some(event);
                Vec::new()
            }
        }
    }
}

fn invented(mut event: RoutedEvent) -> RoutedEvent {
    let id = Bytes::from_static(b"00000000-0000-4000-8000-000000000000");
    for (_, value) in &mut event.headers.values {
        if value.as_ref() == Some(&event.id) {
            *value = Some(id.clone());
        }
    }
    RoutedEvent { id, ..event }
}
