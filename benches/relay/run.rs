//! What every measured run of the relay needs: a slot of its own, and to know when it is done.

use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::load::Bench;
use crate::support::{Relay, wait_until};

/// No run takes this long.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);

/// A copy of `slot`, which stands where that stands.
pub(crate) async fn copy_slot(bench: &Bench, slot: &str) -> String {
    let name = format!("run_{}", &Uuid::new_v4().simple().to_string()[..8]);
    let copy = format!("SELECT pg_copy_logical_replication_slot('{slot}', '{name}')");
    bench.database.sql().run(&copy).await;
    name
}

/// Drops `slot` as soon as nobody holds it.
pub(crate) async fn drop_slot(bench: &Bench, slot: &str) {
    let sql = bench.database.sql();
    let held = format!("SELECT active FROM pg_replication_slots WHERE slot_name = '{slot}'");
    wait_until("the slot is free", LIMIT, async || {
        (sql.value(&held).await.as_deref() == Some("f")).then_some(())
    })
    .await;
    sql.run(&format!("SELECT pg_drop_replication_slot('{slot}')")).await;
}

/// When the relay's metric has reached `value`.
pub(crate) async fn reached(relay: &Relay, metric: &str, value: f64) -> Instant {
    let limit = Instant::now() + LIMIT;
    loop {
        let now = Instant::now();
        if relay.metric(metric, &[]).await.is_some_and(|seen| seen >= value) {
            return now;
        }
        assert!(now < limit, "{metric} does not reach {value}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
