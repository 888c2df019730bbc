//! Makes a report of a look and of what was seen before. Pure but for the report's time.

use std::time::Duration;

use super::advice;
use super::age::{Age, Ages};
use super::forecast::Growth;
use super::look::{Look, Sender, Slot, WalFiles};
use super::report::{SlotFigures, SlotReport, Walsender};
use super::volume::Room;
use crate::config::{MonitorConfig, WalVolume};
use crate::lsn::Lsn;
use crate::relay::state::RelayStatus;
use crate::timestamp::Timestamp;

/// The WAL's files tell an age before there are samples, and are not looked at more often for that.
const FILES_AGAIN: Duration = Duration::from_secs(30);

/// What is remembered from look to look.
#[derive(Debug)]
pub(super) struct Watcher {
    config: MonitorConfig,
    role: String,
    ages: Ages,
    slot_growth: Growth,
    /// Of all that the server keeps, for whichever slot.
    server_growth: Growth,
    file_age: Option<FileAge>,
    /// Since when the slot is seen without a reader.
    inactive_since: Option<Duration>,
}

/// What the WAL's files told about a position.
#[derive(Clone, Copy, Debug)]
struct FileAge {
    position: Lsn,
    asked_at: Duration,
    age: Duration,
}

impl Watcher {
    pub(super) fn new(config: MonitorConfig, role: &str) -> Self {
        let growth = || Growth::new(config.interval);
        Self {
            role: role.to_owned(),
            ages: Ages::default(),
            slot_growth: growth(),
            server_growth: growth(),
            file_age: None,
            inactive_since: None,
            config,
        }
    }

    /// Goes on with another configuration of the same interval.
    pub(super) fn configure(&mut self, config: MonitorConfig, role: &str) {
        role.clone_into(&mut self.role);
        self.config = config;
    }

    /// Takes the look's positions in, and tells whether the WAL's files must be looked at too: for
    /// this position.
    pub(super) fn wants_files(
        &mut self,
        now: Duration,
        look: &Look,
        relay: &RelayStatus,
    ) -> Option<Lsn> {
        let slot = own_slot(look, relay);
        let restart = slot.and_then(Slot::restart_lsn);
        let confirmed = slot.and_then(Slot::confirmed_flush_lsn);
        self.ages.look(now, look.wal_position);
        self.slot_growth.look(now, look.wal_position, restart, confirmed);
        self.server_growth.look(now, look.wal_position, look.oldest_restart_lsn, None);
        let is_for_size = matches!(self.config.wal_volume, Some(WalVolume::Size(_)));
        let is_for_age = confirmed.is_some_and(|confirmed| {
            matches!(self.ages.of(now, confirmed), Age::AtLeast(_))
                && self.file_age.is_none_or(|known| {
                    known.position != confirmed && now >= known.asked_at + FILES_AGAIN
                })
        });
        (look.lists_wal && (is_for_size || is_for_age)).then(|| confirmed.unwrap_or_default())
    }

    /// The report of a look whose positions were taken in.
    pub(super) fn report(
        &mut self,
        now: Duration,
        look: Look,
        files: Option<WalFiles>,
        room: Room,
        relay: &RelayStatus,
    ) -> SlotReport {
        let slot = own_slot(&look, relay).cloned();
        let lag_seconds = slot.as_ref().and_then(|slot| self.lag(now, slot, files, relay));
        let room_left = room_left(&room, &look);
        let own = slot.as_ref().map(|slot| self.figures_of_own(now, slot, look.wal_position));
        let mut report = SlotReport {
            looked_at: Some(Timestamp::now()),
            failure: None,
            wal_position: look.wal_position,
            wal_bytes_per_second: self.server_growth.bytes_per_second(),
            max_slot_wal_keep_size: look.max_slot_wal_keep_size,
            seconds_to_exhaustion: own.as_ref().and_then(|own| self.exhaustion(own)),
            seconds_to_full_disk: room_left
                .and_then(|left| self.server_growth.seconds_until_full(left)),
            unread_wal_bytes: own.as_ref().and_then(|own| unread(own, look.wal_position, relay)),
            other_slots: others(&look, own.as_ref()),
            slot: own,
            walsender: look.walsender.as_ref().map(|sender| walsender(sender, look.wal_position)),
            lag_seconds,
            missing: advice::missing(&look, &room, relay, &self.role),
            warnings: Vec::new(),
            holding: look.holding,
        };
        report.warnings = advice::warnings(&report);
        report
    }

    /// Age of the oldest WAL that is not confirmed.
    fn lag(
        &mut self,
        now: Duration,
        slot: &Slot,
        files: Option<WalFiles>,
        relay: &RelayStatus,
    ) -> Option<f64> {
        let confirmed = slot.confirmed_flush_lsn()?;
        if let Some(age) = files.and_then(|files| files.segment_age_seconds) {
            let age = Duration::try_from_secs_f64(age).unwrap_or_default();
            self.file_age = Some(FileAge { position: confirmed, asked_at: now, age });
        }
        Some(match self.ages.of(now, confirmed) {
            Age::Known(age) => age.as_secs_f64(),
            Age::AtLeast(age) => {
                let of_file = self
                    .file_age
                    .map_or(Duration::ZERO, |known| known.age + now.saturating_sub(known.asked_at));
                // An event that was read tells its commit's time itself.
                let of_event = relay
                    .oldest_unacknowledged
                    .map_or(0.0, |commit| Timestamp::now().seconds_since(commit));
                age.max(of_file).as_secs_f64().max(of_event)
            }
        })
    }

    fn exhaustion(&self, own: &SlotFigures) -> Option<f64> {
        if own.wal_status.as_deref() == Some("lost") {
            return Some(0.0);
        }
        self.slot_growth.seconds_until_full(own.safe_wal_size?)
    }

    fn figures_of_own(&mut self, now: Duration, slot: &Slot, position: Lsn) -> SlotFigures {
        let mut figures = figures(slot, position);
        if slot.active {
            self.inactive_since = None;
        } else if slot.inactive_seconds.is_none() {
            let since = *self.inactive_since.get_or_insert(now);
            figures.inactive_seconds = now.saturating_sub(since).as_secs_f64();
        }
        figures
    }
}

fn own_slot<'a>(look: &'a Look, relay: &RelayStatus) -> Option<&'a Slot> {
    let name = relay.slot.as_deref()?;
    look.slots.iter().find(|slot| slot.name == name)
}

fn others(look: &Look, own: Option<&SlotFigures>) -> Vec<SlotFigures> {
    let is_other = |slot: &&Slot| own.is_none_or(|own| own.name != slot.name);
    let slots = look.slots.iter().filter(is_other);
    slots.map(|slot| figures(slot, look.wal_position)).collect()
}

fn figures(slot: &Slot, position: Lsn) -> SlotFigures {
    let since = |lsn: Lsn| position.bytes_since(lsn);
    SlotFigures {
        name: slot.name.clone(),
        retained_wal_bytes: slot.restart_lsn().map(since),
        confirmed_lag_bytes: slot.confirmed_flush_lsn().map(since),
        active: slot.active,
        active_pid: slot.active_pid,
        wal_status: slot.wal_status.clone(),
        safe_wal_size: slot.safe_wal_size,
        inactive_since: slot.inactive_since.map(Timestamp::from_micros),
        inactive_seconds: slot.inactive_seconds.unwrap_or_default().max(0.0),
        invalidation_reason: slot.invalidation_reason.clone(),
        conflicting: slot.conflicting,
        failover: slot.failover,
        synced: slot.synced,
        decoding: slot.decoding,
    }
}

fn walsender(sender: &Sender, position: Lsn) -> Walsender {
    let [sent, write, flush] =
        sender.positions().map(|lsn| lsn.map(|lsn| position.bytes_since(lsn)));
    Walsender {
        pid: sender.pid,
        sent_lag_bytes: sent,
        write_lag_bytes: write,
        flush_lag_bytes: flush,
        sync_state: sender.sync_state.clone(),
        wait_event: sender.wait_event.clone(),
    }
}

/// WAL that nobody has read yet: all that is not confirmed, where the relay has read nothing.
fn unread(own: &SlotFigures, position: Lsn, relay: &RelayStatus) -> Option<u64> {
    let unconfirmed = own.confirmed_lag_bytes?;
    Some(position.bytes_since(relay.received).min(unconfirmed))
}

/// Bytes that still fit on the volume.
fn room_left(room: &Room, look: &Look) -> Option<i64> {
    let left = match room {
        Room::Free(free) => *free,
        Room::Size { size, used } => {
            let kept = || Some(look.wal_position.bytes_since(look.oldest_restart_lsn?));
            size.saturating_sub((*used).or_else(kept)?)
        }
        Room::NotAsked | Room::Unreadable(_) => return None,
    };
    Some(i64::try_from(left).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
