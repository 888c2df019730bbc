//! What a broker does to a relay, told with RabbitMQ.

use serde_json::json;

use super::{Watched, annotation};
use crate::support::{
    Database, EXCHANGE, PrivateRabbit, QueueKind, Rabbit, RabbitVersion, Relay, SHORT, Settings,
};

on_both_rabbits!(backlog_lag_and_nothing_delivered_fire_and_are_over);

/// A queue that refuses everything, until it does not.
async fn backlog_lag_and_nothing_delivered_fire_and_are_over(version: RabbitVersion) {
    let watched = Watched::new().await;
    let rules = [
        ("window_events", json!({"above": 10, "for": "1s"})),
        ("slot_lag_seconds", json!({"above": "2s"})),
        ("slot_confirmed_lag_bytes", json!({"above": "16MiB"})),
        ("seconds_since_delivery", json!({"above": "2s"})),
        ("seconds_since_confirm", json!({"above": "2s"})),
        ("failures_per_minute", json!({"above": 5, "severity": "warning"})),
        ("sinks_blocked", json!({})),
    ];
    let scene = Scene::new(&watched, Rabbit::create(version, "alerts"), version, &rules).await;
    let full = json!({"max-length": 0, "overflow": "reject-publish"});
    scene.rabbit.set_policy("full", "order", full);
    let relay = Relay::streaming(&scene.settings).await;
    for n in 0..20 {
        scene.database.insert("order", "a", n).await;
    }
    // More than others' work on a shared server makes of a lag.
    let fill = "CREATE TABLE filler AS SELECT repeat('x', 1000) FROM generate_series(1, 25000)";
    scene.database.sql().run(fill).await;

    let cause = format!("exchange `{EXCHANGE}`");
    let names = [
        "PgoutboxBacklog",
        "PgoutboxSlotLagSeconds",
        "PgoutboxSlotLagBytes",
        "PgoutboxNothingDelivered",
        "PgoutboxPositionStuck",
        "PgoutboxBrokerBlocked",
    ];
    for name in names {
        let alert = watched.fires(name, &["sink `tasks`", &cause, "routing key `order`"]).await;
        assert_eq!(alert["labels"]["slot"], scene.database.name(), "{alert}");
        assert_eq!(alert["labels"]["team"], "shop", "{alert}");
        assert!(annotation(&alert, "runbook_url").ends_with(".md"), "{alert}");
    }
    let stuck = relay.metric("pgoutbox_seconds_since_confirm", &[]).await;
    assert!(stuck >= Some(2.0), "{stuck:?}");
    watched.fires("PgoutboxPublishErrors", &["of sink `tasks`: nack"]).await;
    let alert = watched.fires("PgoutboxBacklog", &["20 events"]).await;
    assert!(annotation(&alert, "description").contains("rule: window_events above 10 for 1s"));

    scene.rabbit.delete_policy("full");
    for name in names {
        watched.is_over(name).await;
    }
    // A minute after the last of them; once is enough.
    if version == RabbitVersion::Newest {
        watched.is_over_within("PgoutboxPublishErrors", 4 * SHORT).await;
    }
}

/// A24, and then a broker that is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a24_a_broker_that_blocks_or_is_gone_is_named() {
    let version = RabbitVersion::Newest;
    let mut broker = PrivateRabbit::start(version, &[]).await;
    let watched = Watched::new().await;
    let rules = [("sinks_blocked", json!({})), ("sinks_disconnected", json!({}))];
    let rabbit = Rabbit::create_on(broker.node(), "alerts");
    let scene = Scene::new(&watched, rabbit, version, &rules).await;
    let mut relay = Relay::streaming(&scene.settings).await;

    tokio::task::block_in_place(|| broker.node().set_memory_alarm(true));
    scene.database.insert("order", "a", 1).await;
    watched.fires("PgoutboxBrokerBlocked", &["sink `tasks`", "low on memory"]).await;
    tokio::task::block_in_place(|| broker.node().set_memory_alarm(false));
    watched.is_over("PgoutboxBrokerBlocked").await;

    broker.kill();
    let alert = watched.fires("PgoutboxBrokerUnreachable", &["sink `tasks`"]).await;
    assert_eq!(alert["labels"]["severity"], "critical");
    // Nobody says it again, so that it ends; a relay that has never had a connection says so too.
    relay.kill();
    watched.is_over("PgoutboxBrokerUnreachable").await;
    let _relay = Relay::start(&scene.settings);
    watched.fires("PgoutboxBrokerUnreachable", &["sink `tasks`: ", "refused"]).await;
    broker.start_again().await;
    watched.is_over("PgoutboxBrokerUnreachable").await;
}

struct Scene {
    settings: Settings,
    database: Database,
    rabbit: Rabbit,
}

impl Scene {
    /// With the queue `order`.
    async fn new(
        watched: &Watched,
        rabbit: Rabbit,
        version: RabbitVersion,
        rules: &[(&str, serde_json::Value)],
    ) -> Self {
        let database = Database::create(version.postgres(), "alerts").await;
        database.create_outbox().await;
        rabbit.create_exchange(EXCHANGE, "direct", json!({}));
        rabbit.create_queue("order", QueueKind::Classic, json!({}));
        rabbit.bind(EXCHANGE, "order", "order");
        let settings = watched.settings(Settings::rabbit(&database, &rabbit), rules);
        Relay::init(&settings, &database.admin_url());
        database.sql().run(&format!("GRANT pg_monitor TO {}", database.name())).await;
        Self { settings, database, rabbit }
    }
}
