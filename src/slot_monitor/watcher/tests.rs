//! Reports made of looks that no server gave.

use serde_json::json;

use super::*;

const MIB: u64 = 1 << 20;
/// Where the made-up slots begin.
const START: u64 = 1 << 30;

fn relay() -> RelayStatus {
    RelayStatus { slot: Some("mine".to_owned()), ..RelayStatus::default() }
}

/// A look that finds the WAL `ahead` bytes past what the slot keeps and has confirmed.
fn look(ahead: u64) -> Look {
    let slot = json!({
        "name": "mine",
        "restart_lsn": Lsn::new(START).to_string(),
        "confirmed_flush_lsn": Lsn::new(START).to_string(),
        "wal_status": "reserved",
        "safe_wal_size": 100 * MIB as i64 - ahead as i64,
    });
    Look {
        wal_position: Lsn::new(START + ahead),
        version: 150_000,
        max_slot_wal_keep_size: Some(100 * MIB),
        sees_others: true,
        lists_wal: true,
        oldest_restart_lsn: Some(Lsn::new(START)),
        slots: vec![serde_json::from_value(slot).unwrap()],
        walsender: None,
        holding: Vec::new(),
    }
}

struct Scene {
    watcher: Watcher,
    relay: RelayStatus,
    files: Option<WalFiles>,
    room: Room,
}

impl Scene {
    fn new(wal_volume: Option<WalVolume>) -> Self {
        let config = MonitorConfig { wal_volume, ..MonitorConfig::default() };
        let watcher = Watcher::new(config, "relay");
        Self { watcher, relay: relay(), files: None, room: Room::NotAsked }
    }

    fn report(&mut self, seconds: u64, look: Look) -> SlotReport {
        let now = Duration::from_secs(seconds);
        self.watcher.wants_files(now, &look, &self.relay);
        self.watcher.report(now, look, self.files, self.room.clone(), &self.relay)
    }

    /// A look every five seconds at WAL that grows by 1 MiB a second.
    fn reports(&mut self, count: u64) -> Vec<SlotReport> {
        (1..=count).map(|n| self.report(5 * n, look(5 * n * MIB))).collect()
    }
}

#[test]
fn figures_are_counted_from_the_wals_position() {
    let mut scene = Scene::new(None);
    let report = scene.report(5, look(7 * MIB));
    let slot = report.slot.unwrap();
    assert_eq!(slot.retained_wal_bytes, Some(7 * MIB));
    assert_eq!(slot.confirmed_lag_bytes, Some(7 * MIB));
    assert_eq!(report.unread_wal_bytes, Some(7 * MIB), "nothing was read yet");

    scene.relay.received = Lsn::new(START + 5 * MIB);
    assert_eq!(scene.report(10, look(7 * MIB)).unread_wal_bytes, Some(2 * MIB));
}

#[test]
fn files_are_asked_for_only_where_something_hangs_on_them() {
    let mut scene = Scene::new(None);
    let mut asks = |seconds, look| {
        scene.watcher.wants_files(Duration::from_secs(seconds), &look, &scene.relay).is_some()
    };
    assert!(!asks(1, Look { lists_wal: false, ..look(MIB) }), "they may not be listed");
    assert!(asks(2, look(MIB)), "before the first look something was left");
    assert!(!asks(3, look(0)), "all is confirmed: another server's position, in truth");
    assert!(!asks(8, look(MIB)), "this was seen to come");
    let mut sized = Scene::new(Some(WalVolume::Size(MIB)));
    assert!(sized.watcher.wants_files(Duration::ZERO, &look(0), &relay()).is_some());
}

#[test]
fn wal_from_before_the_first_look_is_as_old_as_its_file_or_its_event() {
    let mut scene = Scene::new(None);
    scene.files = Some(WalFiles { used_bytes: None, segment_age_seconds: Some(600.0) });
    assert_eq!(scene.report(10, look(MIB)).lag_seconds, Some(600.0));
    scene.files = None;
    assert_eq!(scene.report(20, look(MIB)).lag_seconds, Some(610.0));

    let hour_ago = Timestamp::now().as_micros() - 3_600_000_000;
    scene.relay.oldest_unacknowledged = Some(Timestamp::from_micros(hour_ago));
    let lag = scene.report(30, look(MIB)).lag_seconds.unwrap();
    assert!((3600.0..3610.0).contains(&lag), "{lag}");
}

#[test]
fn what_is_confirmed_has_no_lag() {
    let mut scene = Scene::new(None);
    assert_eq!(scene.report(10, look(0)).lag_seconds, Some(0.0));
    assert_eq!(scene.report(15, look(1)).lag_seconds, Some(0.0));
    assert_eq!(scene.report(20, look(1)).lag_seconds, Some(5.0));
}

#[test]
fn a_lost_slot_has_no_time_left() {
    let mut lost = look(0);
    let slot = json!({"name": "mine", "wal_status": "lost", "restart_lsn": null});
    lost.slots = vec![serde_json::from_value(slot).unwrap()];
    let report = Scene::new(None).report(5, lost);
    assert_eq!(report.seconds_to_exhaustion, Some(0.0));
    assert_eq!((report.lag_seconds, report.unread_wal_bytes), (None, None));
}

#[test]
fn without_a_limit_there_is_a_warning_and_no_forecast() {
    let mut scene = Scene::new(None);
    for n in 1..20 {
        let mut look = look(5 * n * MIB);
        look.max_slot_wal_keep_size = None;
        look.slots[0].safe_wal_size = None;
        let report = scene.report(5 * n, look);
        assert_eq!(report.seconds_to_exhaustion, None);
        assert!(report.warnings[0].contains("max_slot_wal_keep_size"), "{:?}", report.warnings);
    }
}

#[test]
fn the_disk_is_full_when_the_volume_is() {
    let size = 1000 * MIB;
    let mut scene = Scene::new(Some(WalVolume::Size(size)));
    // What the files take counts, 200 MiB; where they may not be listed, what the slots keep.
    scene.room = Room::Size { size, used: Some(200 * MIB) };
    assert_eq!(scene.reports(10)[9].seconds_to_full_disk, Some(800.0));
    scene.room = Room::Size { size, used: None };
    assert_eq!(scene.reports(10)[9].seconds_to_full_disk, Some(950.0));
    scene.room = Room::Free(70 * MIB);
    assert_eq!(scene.reports(10)[9].seconds_to_full_disk, Some(70.0));
    scene.room = Room::NotAsked;
    assert_eq!(scene.reports(10)[9].seconds_to_full_disk, None);
}

#[test]
fn before_17_a_slot_is_inactive_since_it_was_seen_so() {
    let mut scene = Scene::new(None);
    let inactive = |report: SlotReport| report.slot.unwrap().inactive_seconds;
    assert_eq!(inactive(scene.report(10, look(0))), 0.0);
    assert_eq!(inactive(scene.report(25, look(0))), 15.0);
    let mut active = look(0);
    active.slots[0].active = true;
    assert_eq!(inactive(scene.report(30, active)), 0.0);
    assert_eq!(inactive(scene.report(35, look(0))), 0.0);
}

#[test]
fn a_slot_that_is_not_there_is_said_to_be_missing() {
    let mut gone = look(0);
    gone.slots.clear();
    let report = Scene::new(None).report(5, gone);
    assert!(report.slot.is_none() && report.lag_seconds.is_none());
    assert!(report.missing.iter().any(|line| line.contains("`mine`")), "{:?}", report.missing);
}
