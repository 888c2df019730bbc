//! Relays broken on purpose where RabbitMQ gives them the occasion.

use serde_json::json;

use super::Scene;
use crate::checker::{History, Report, Workload, judge_queues};
use crate::support::{RabbitVersion, Relay, SHORT, wait_until};

/// Takes a message that no queue wanted for delivered, because its confirm is an ack.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_ignores_returns_loses_events() {
    let scene = Scene::new(RabbitVersion::Newest, "ignore").await;
    scene.rabbit.unbind("events", "order", "order");
    let _relay = scene.broken("ignore_return").await;
    let history = small().run(&scene.database).await;
    scene.confirmed().await;
    let report = scene.report(&history).await;
    assert!(!report.missing.is_empty(), "{report}");
}

/// Takes what a queue refused for acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_takes_nacks_for_acks_loses_events() {
    let scene = Scene::new(RabbitVersion::Newest, "nack").await;
    let refuse = json!({"max-length": 0, "overflow": "reject-publish"});
    scene.rabbit.set_policy("refuse", "order", refuse);
    let _relay = scene.broken("accept_nack").await;
    let history = small().run(&scene.database).await;
    scene.confirmed().await;
    scene.rabbit.delete_policy("refuse");
    let report = scene.report(&history).await;
    assert!(!report.missing.is_empty(), "{report}");
}

/// Does not keep the later events of a key back while an earlier one is tried again.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_overtakes_what_came_back_is_found_out() {
    let scene = Scene::new(RabbitVersion::Newest, "late").await;
    let refuse = json!({"max-length": 0, "overflow": "reject-publish"});
    scene.rabbit.set_policy("refuse", "order", refuse);
    let relay = scene.broken("resend_late").await;
    let history = small().run(&scene.database).await;
    wait_until("a nack", SHORT, async || {
        let failed = relay.metric("pgoutbox_events_failed_total", &[]).await?;
        (failed > 0.0).then_some(())
    })
    .await;
    scene.rabbit.delete_policy("refuse");
    scene.confirmed().await;
    let report = scene.report(&history).await;
    assert!(!report.reordered.is_empty(), "{report}");
}

fn small() -> Workload {
    Workload { transactions: 20, ..Workload::default() }
}

impl Scene {
    /// A relay that commits one fault.
    async fn broken(&self, fault: &str) -> Relay {
        let environment = [("PGOUTBOX_SABOTAGE", fault)];
        let mut relay = Relay::start_with(&self.settings, &[], &environment);
        relay.wait_state("streaming", SHORT).await;
        relay
    }

    async fn confirmed(&self) {
        let end = self.database.wal_end().await;
        self.database.wait_confirmed(end, 3 * SHORT).await;
    }

    async fn report(&self, history: &History) -> Report {
        judge_queues(history, self.reader().await.read_to_end().await)
    }
}
