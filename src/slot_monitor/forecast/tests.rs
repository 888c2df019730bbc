//! Forecasts over made-up servers: what they write, and how their slot moves, is told a look at a time.

use proptest::prelude::*;

use super::*;

const INTERVAL: Duration = Duration::from_secs(5);
const MIB: u64 = 1 << 20;

/// A server with a slot that may keep `limit` bytes.
struct Server {
    growth: Growth,
    now: Duration,
    position: u64,
    kept_from: u64,
    /// `None`: it is as good as read.
    confirmed: Option<u64>,
    limit: u64,
}

impl Server {
    fn new(limit: u64) -> Self {
        let start = 10 * limit;
        Self {
            growth: Growth::new(INTERVAL),
            now: Duration::from_secs(1000),
            position: start,
            kept_from: start,
            confirmed: None,
            limit,
        }
    }

    fn room(&self) -> i64 {
        self.limit as i64 - (self.position - self.kept_from) as i64
    }

    /// Writes `bytes` within one interval and looks.
    fn write(&mut self, bytes: u64) -> Option<f64> {
        self.now += self.growth.interval;
        self.position += bytes;
        let kept_from = Some(Lsn::new(self.kept_from));
        let confirmed = self.confirmed.map(Lsn::new);
        self.growth.look(self.now, Lsn::new(self.position), kept_from, confirmed);
        self.growth.seconds_until_full(self.room())
    }

    /// The slot has caught up.
    fn catch_up(&mut self) {
        self.kept_from = self.position;
    }
}

#[test]
fn steady_growth_is_told_to_the_second() {
    let mut server = Server::new(1000 * MIB);
    let told: Vec<_> = (0..10).map(|_| server.write(5 * MIB)).collect();
    assert_eq!(told[..5], [None; 5], "too early to tell");
    // 1 MiB a second.
    assert_eq!(told[5], Some(970.0));
    assert_eq!(told[9], Some(950.0));
}

#[test]
fn used_up_is_zero_and_stays_so() {
    let mut server = Server::new(50 * MIB);
    let told: Vec<_> = (0..20).map(|_| server.write(5 * MIB)).collect();
    assert_eq!(told[9..], [Some(0.0); 11]);
}

#[test]
fn growth_that_stops_moves_the_end_away_and_then_has_none() {
    let mut server = Server::new(1000 * MIB);
    for _ in 0..20 {
        server.write(5 * MIB);
    }
    let told: Vec<_> = (0..30).map(|_| server.write(0)).collect();
    let gone = told.iter().position(Option::is_none).expect("an end to the forecast");
    assert!(gone <= 18, "after {gone} looks");
    assert!(told[..gone].is_sorted(), "{told:?}");
    assert!(told[gone..].iter().all(Option::is_none), "{told:?}");
}

/// With looks every second, the first step of `restart_lsn` takes many of them.
#[test]
fn a_slot_that_is_read_is_not_judged_before_its_first_step() {
    let mut server = Server::new(1000 * MIB);
    server.growth = Growth::new(Duration::from_secs(1));
    server.confirmed = Some(server.position);
    for look in 1..200 {
        if look % 15 == 0 {
            server.catch_up();
        }
        server.confirmed = Some(server.position);
        assert_eq!(server.write(MIB), None, "look {look}");
    }

    let mut stuck = Server::new(1000 * MIB);
    stuck.growth = Growth::new(Duration::from_secs(1));
    stuck.confirmed = Some(stuck.position);
    let told: Vec<_> = (0..6).map(|_| stuck.write(MIB)).collect();
    assert_eq!(told[5], Some(994.0));
}

/// Checkpoints and autovacuum write a little in a quiet database.
#[test]
fn a_trickle_is_no_danger() {
    let mut server = Server::new(1000 * MIB);
    assert!((0..100).all(|_| server.write(100).is_none()));
}

/// `restart_lsn` follows in steps of fifteen seconds, and now and then of thirty.
#[test]
fn a_slot_that_keeps_up_in_steps_has_no_end() {
    let mut server = Server::new(1000 * MIB);
    for look in 0..200 {
        if look % 3 == 0 && look % 4 != 0 {
            server.catch_up();
        }
        assert_eq!(server.write(5 * MIB), None, "look {look}");
    }
}

#[test]
fn a_slot_that_stands_still_after_it_kept_up_is_noticed_within_a_minute() {
    let mut server = Server::new(1000 * MIB);
    for look in 0..40 {
        if look % 3 == 0 {
            server.catch_up();
        }
        server.write(5 * MIB);
    }
    let told: Vec<_> = (0..12).map(|_| server.write(5 * MIB)).collect();
    let first = told.iter().position(Option::is_some).expect("a forecast");
    for (look, seconds) in told.iter().enumerate().skip(first) {
        let truth = (server.room() as f64 / MIB as f64) + 5.0 * (11 - look) as f64;
        assert!((seconds.unwrap() / truth - 1.0).abs() < 0.2, "{seconds:?}, not {truth}");
    }
}

/// It is read, but more slowly than WAL is written.
#[test]
fn a_slot_that_falls_behind_slowly_is_told_by_what_it_lacks() {
    let mut server = Server::new(10_000 * MIB);
    let mut told = None;
    for look in 0..60 {
        told = server.write(5 * MIB);
        if look % 3 == 2 {
            // Half of what three looks write.
            server.kept_from += 15 * MIB / 2;
        }
    }
    let truth = (server.room() as f64 - 7.5 * MIB as f64) / (MIB as f64 / 2.0);
    assert!((told.unwrap() / truth - 1.0).abs() < 0.2, "{told:?}, not {truth}");
}

#[test]
fn catching_up_ends_the_forecast_at_once() {
    let mut server = Server::new(1000 * MIB);
    let before = (0..30).map(|_| server.write(5 * MIB)).last().unwrap();
    assert!(before.is_some());
    server.catch_up();
    assert_eq!(server.write(5 * MIB), None);
}

#[test]
fn another_servers_positions_begin_anew() {
    let mut server = Server::new(1000 * MIB);
    for _ in 0..30 {
        server.write(5 * MIB);
    }
    server.position -= 100 * MIB;
    assert_eq!(server.write(0), None);
    assert_eq!(server.growth.bytes_per_second(), None);
    let told: Vec<_> = (0..5).map(|_| server.write(5 * MIB)).collect();
    assert!(told[..4].iter().all(Option::is_none) && told[4].is_some(), "{told:?}");
}

#[test]
fn a_slot_that_keeps_nothing_has_no_end() {
    let mut growth = Growth::new(INTERVAL);
    for look in 1..50_u32 {
        growth.look(INTERVAL * look, Lsn::new(u64::from(look) * MIB), None, None);
        assert_eq!(growth.seconds_until_full(1000), None);
    }
}

#[test]
fn samples_are_bounded_however_short_the_interval() {
    let mut growth = Growth::new(Duration::from_millis(100));
    for look in 1..5000_u32 {
        growth.look(Duration::from_millis(100) * look, Lsn::new(look.into()), None, None);
    }
    assert!(growth.samples.len() <= 902, "{}", growth.samples.len());
}

proptest! {
    /// Whatever rate, with looks between which as little as half of it is written, and the rest later.
    #[test]
    fn steady_growth_with_noise_is_told_within_a_fifth(
        rate in MIB..500 * MIB,
        noise in prop::collection::vec(-0.5_f64..0.5, 20..60),
    ) {
        let mut server = Server::new(rate * 200);
        let looks = noise.iter().flat_map(|noise| [1.0 + noise, 1.0 - noise]);
        for (look, factor) in looks.enumerate() {
            let told = server.write((rate as f64 * factor) as u64);
            prop_assert_eq!(told.is_some(), look >= 5, "look {}", look);
            let Some(told) = told else { continue };
            let truth = server.room() as f64 / (rate as f64 / INTERVAL.as_secs_f64());
            prop_assert!((told / truth - 1.0).abs() < 0.2, "look {look}: {told}, not {truth}");
        }
    }

    /// Any history at all, servers that go back included.
    #[test]
    fn no_forecast_is_negative_or_beyond_all_sense(
        steps in prop::collection::vec((0..100 * MIB, 0_u8..4), 1..200),
    ) {
        let mut server = Server::new(1000 * MIB);
        for (bytes, what) in steps {
            match what {
                0 => server.catch_up(),
                1 => {
                    server.position = server.position.saturating_sub(bytes);
                    server.kept_from = server.kept_from.min(server.position);
                }
                _ => {}
            }
            if let Some(told) = server.write(bytes) {
                prop_assert!((0.0..=HORIZON_SECONDS).contains(&told), "{}", told);
                prop_assert_eq!(told == 0.0, server.room() <= 0);
            }
            if let Some(rate) = server.growth.bytes_per_second() {
                prop_assert!(rate.is_finite() && rate >= 0.0);
            }
        }
    }

    /// Once it is gone it stays gone, and before that it only moves away.
    #[test]
    fn growth_that_stops_never_makes_it_flap(
        written in prop::collection::vec(MIB..20 * MIB, 6..60),
    ) {
        let mut server = Server::new(100_000 * MIB);
        for bytes in written {
            server.write(bytes);
        }
        let mut last = 0.0;
        for _ in 0..40 {
            let told = server.write(0).unwrap_or(f64::INFINITY);
            prop_assert!(told >= last, "{} after {}", told, last);
            last = told;
        }
        prop_assert!(last.is_infinite());
    }
}
