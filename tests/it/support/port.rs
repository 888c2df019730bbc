//! Ports for servers of a test's own.

use std::net::TcpListener;
use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below those from which the system takes a client's: who listens there may be away for a while and
/// still finds its port free. `dev/services` takes those from 20000 on.
const PORTS: Range<u16> = 10_000..20_000;

/// A port that nobody listens on, and that was not given to anybody lately. Another process of tests
/// begins elsewhere.
pub(crate) fn free_port() -> u16 {
    static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| AtomicU16::new(rand::random()));
    let count = PORTS.end - PORTS.start;
    let mut ports = std::iter::repeat_with(|| NEXT.fetch_add(1, Ordering::Relaxed) % count)
        .map(|index| PORTS.start + index)
        .take(count.into());
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    ports.find(is_free).expect("a free port from 10000 to 19999")
}
