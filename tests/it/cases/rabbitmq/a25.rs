//! A25, AMQP's connection strings: a virtual host and a login of any characters connect, and no
//! message shows the password.

use serde_json::json;

use super::Scene;
use crate::support::{QueueKind, Rabbit, RabbitVersion, Relay, SHORT};

on_both_rabbits!(a25_connection_strings_of_amqp);

const USER: &str = "us@er:/%é";
const PASSWORD: &str = "p@ss:w/rd?#%25 $é";

async fn a25_connection_strings_of_amqp(version: RabbitVersion) {
    let rabbit = Rabbit::create(version, "a25/%2f é");
    let node = rabbit.node();
    let vhost = rabbit.name().to_owned();
    node.management.put(&["users", USER], &json!({"password": PASSWORD, "tags": ""}));
    let all = json!({"configure": "", "write": ".*", "read": ""});
    node.management.put(&["permissions", &vhost, USER], &all);
    let url = node.url(USER, PASSWORD, &vhost);
    let scene = Scene::new(rabbit, version, QueueKind::Classic, |settings| {
        settings.with("sinks.tasks.rabbitmq.url", url)
    })
    .await;
    let database = &scene.database;
    let mut relay = Relay::streaming(&scene.settings).await;
    database.insert("order", "1", 1).await;
    let end = database.wal_end().await;
    database.wait_confirmed(end, SHORT).await;
    assert!(relay.terminate(SHORT).await.success());
    assert!(!relay.whole_log().contains("p@ss") && !relay.whole_log().contains("p%40ss"));

    // By settings of their own, nothing is escaped; and a wrong one is told without being shown.
    let plain = scene
        .settings
        .clone()
        .with("sinks.tasks.rabbitmq.url", scene.rabbit.node().url("nobody", "", &vhost))
        .with("sinks.tasks.rabbitmq.username", USER);
    let right = plain.clone().with("sinks.tasks.rabbitmq.password", PASSWORD);
    assert!(Relay::command(&right, "check", &[]).status.success());
    let wrong = plain.with("sinks.tasks.rabbitmq.password", "s3cr3t-and-wrong");
    let output = Relay::command(&wrong, "check", &[]);
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    assert!(!output.status.success());
    assert!(printed.contains(&format!("refuses the login of `{USER}`")), "{printed}");
    assert!(!printed.contains("s3cr3t"), "{printed}");
    scene.rabbit.node().management.delete(&["users", USER]);
}
