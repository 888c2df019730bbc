//! `check` on RabbitMQ: what it sees of exchanges, bindings and queues before an event does.

use serde_json::json;

use super::{Checked, check, init};
use crate::support::{Database, EXCHANGE, QueueKind, Rabbit, RabbitVersion, Settings};

on_both_rabbits!(
    check_finds_what_is_not_bound_and_what_would_lose_events,
    check_says_what_it_cannot_know,
);

async fn check_finds_what_is_not_bound_and_what_would_lose_events(version: RabbitVersion) {
    let scene = Scene::new(version, "bound").await;
    for event_type in ["made", "made", "lost", "stored"] {
        scene.insert(event_type).await;
    }
    scene.rabbit.create_exchange(EXCHANGE, "topic", json!({}));
    let rabbit = &scene.rabbit;
    rabbit.create_queue("small", QueueKind::Classic, json!({"x-max-length": 5}));
    rabbit.create_queue("kept", QueueKind::Quorum, json!({}));
    rabbit.create_queue("work", QueueKind::Classic, json!({"x-message-ttl": 1000}));
    rabbit.bind(EXCHANGE, "small", "payment.made");
    rabbit.bind(EXCHANGE, "kept", "payment.st*");
    rabbit.bind(EXCHANGE, "kept", "*.stored");
    let checked = check(&scene.settings).await;
    let lost = format!(
        "sink `tasks` nothing is bound to exchange `{EXCHANGE}` for the routing key `payment.lost`: \
         the broker would return its events"
    );
    assert_eq!(checked.of("error"), [lost]);
    assert_eq!(
        of_queues(&checked),
        [
            "sink `tasks` queue `small` drops its oldest message when it is full (`x-overflow` is \
             `drop-head`, the default)",
            "sink `tasks` queue `work` drops messages after a while (`x-message-ttl`), and has no \
             dead letter exchange",
        ]
    );
    let well = "sink `tasks` 3 of 4 routing keys lead to queues: kept, small, work";
    assert!(checked.of("ok").contains(&well.to_owned()), "{checked:?}");

    rabbit.bind(EXCHANGE, "kept", "payment.#");
    let checked = check(&scene.settings).await;
    assert_eq!(checked.of("error"), [] as [&str; 0]);
}

async fn check_says_what_it_cannot_know(version: RabbitVersion) {
    let scene = Scene::new(version, "unknown").await;
    // `run` would not start either.
    let checked = check(&scene.settings).await;
    let missing = checked.of("error");
    assert!(missing.iter().any(|line| line.contains(EXCHANGE)), "{missing:?}");

    scene.rabbit.create_exchange(EXCHANGE, "topic", json!({}));
    let checked = check(&scene.without_management).await;
    assert_eq!(checked.of("error"), [] as [&str; 0]);
    let said = "sink `tasks` bindings and queues are not checked, since that takes RabbitMQ's \
                management API (`management: {url: …}`)";
    assert!(checked.of("ok").contains(&said.to_owned()), "{checked:?}");

    // The relay's own user may not ask.
    let api = json!({"url": scene.rabbit.node().management.url()});
    let own = scene.without_management.with("sinks.tasks.rabbitmq.management", api);
    let checked = check(&own).await;
    let fix = checked.fix("warning", &["may not read the management API"]);
    assert!(fix.contains("rabbitmqctl set_user_tags"), "{fix}");
}

fn of_queues(checked: &Checked) -> Vec<String> {
    let warnings = checked.of("warning").into_iter();
    warnings.filter(|line| line.starts_with("sink `tasks` queue")).collect()
}

struct Scene {
    settings: Settings,
    without_management: Settings,
    database: Database,
    rabbit: Rabbit,
}

impl Scene {
    async fn new(version: RabbitVersion, hint: &str) -> Self {
        let database = Database::create(version.postgres(), hint).await;
        database.create_outbox().await;
        let rabbit = Rabbit::create(version, hint);
        let api = json!({
            "url": rabbit.node().management.url(), "username": "guest", "password": "guest",
        });
        let without_management = Settings::rabbit(&database, &rabbit).with(
            "routes",
            json!([
                {"match": {"aggregate_type": "task"}, "exchange": "", "routing_key": "work"},
                {"exchange": EXCHANGE, "routing_key": "${aggregate_type}.${event_type}"},
            ]),
        );
        let settings = without_management.clone().with("sinks.tasks.rabbitmq.management", api);
        init(&database, &settings, &[]).await;
        database.sql().run("GRANT SELECT ON outbox TO PUBLIC").await;
        Self { settings, without_management, database, rabbit }
    }

    async fn insert(&self, event_type: &str) {
        let insert = format!(
            "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload)
             VALUES ('payment', 'a', '{event_type}', '{{}}')"
        );
        self.database.sql().run(&insert).await;
    }
}
