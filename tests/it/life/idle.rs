//! An outbox that has nothing to say.

use super::Scene;
use crate::support::{Relay, Server};

on_both_servers!(an_idle_outbox_is_confirmed_while_others_write_without_a_pause);

/// Positions come faster than the catalogue can be looked at: those in between count all the same.
async fn an_idle_outbox_is_confirmed_while_others_write_without_a_pause(server: Server) {
    let scene = Scene::new(server, "idle").await;
    let _relay = Relay::streaming(&scene.settings).await;
    let busy = scene.database.connect().await;
    busy.run("CREATE TABLE busy (x int)").await;
    let writing = tokio::spawn(async move {
        loop {
            busy.run("INSERT INTO busy VALUES (1)").await;
        }
    });
    for _ in 0..3 {
        scene.confirmed().await;
    }
    assert!(!writing.is_finished());
    writing.abort();
}
