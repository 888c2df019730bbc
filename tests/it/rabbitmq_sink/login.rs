//! Coming in: hosts in turn, and who is not let in.

use std::time::Duration;

use pgoutbox::config::{RabbitMqConfig, Sasl, TlsFiles};
use pgoutbox::failure::{Class, Failure};

use super::confirms::numbered;
use super::relay::{Relay, config};
use crate::support::{Certificates, PrivateRabbit, Proxy, QueueKind, Rabbit, RabbitVersion};

const GRACE: Duration = Duration::from_secs(5);

on_both_rabbits! {
    a_refused_login_stops_the_start,
    hosts_are_tried_in_turn,
    amqps_takes_a_private_authority_and_a_client_certificate,
}

async fn refusal(config: &RabbitMqConfig) -> (Class, String, Failure) {
    let failure = Relay::with(config, &[]).await.err().expect("must fail");
    let code = failure.peer_code().unwrap_or("").to_owned();
    (failure.class(), code, failure)
}

async fn a_refused_login_stops_the_start(version: RabbitVersion) {
    let rabbit = Rabbit::create(version, "login");
    let node = rabbit.node();
    let wrong = config(&[node.url(rabbit.name(), "wrong", rabbit.name())]);
    let (class, code, failure) = refusal(&wrong).await;
    assert_eq!((class, code.as_str()), (Class::Fixable, "403"), "{failure}");
    assert!(!failure.to_string().contains("wrong"));
    let nowhere = config(&[node.url("guest", "guest", "nowhere")]);
    let (class, code, failure) = refusal(&nowhere).await;
    assert_eq!((class, code.as_str()), (Class::Fixable, "530"), "{failure}");
    assert!(failure.to_string().contains("nowhere"));
    let (class, code, failure) = refusal(&config(&["amqp://127.0.0.1:1".to_owned()])).await;
    assert_eq!((class, code.as_str()), (Class::Transient, "connection"), "{failure}");
    let management = format!("amqp://127.0.0.1:{}", node.management.port());
    let (_, _, failure) = refusal(&config(&[management])).await;
    assert!(failure.way_out().is_some_and(|hint| hint.contains("5672")), "{failure:?}");
    let plain = config(&[format!("amqps://localhost:{}", node.port)]);
    let (class, _, failure) = refusal(&plain).await;
    assert_eq!(class, Class::Fixable, "{failure}");
}

async fn hosts_are_tried_in_turn(version: RabbitVersion) {
    let rabbit = Rabbit::create(version, "hosts");
    rabbit.create_layout(QueueKind::Quorum);
    let (first, second) =
        (Proxy::start(rabbit.node().port).await, Proxy::start(rabbit.node().port).await);
    first.cut();
    let urls = [&first, &second].map(|proxy| rabbit.relay_url_through(proxy.port()));
    let mut relay = Relay::with(&config(&urls), &[]).await.expect("the second answers");
    relay.push((0..10).map(|number| numbered("order", number, number)));
    relay.run_to_end().await;
    first.resume();
    second.cut();
    relay.push((10..20).map(|number| numbered("order", number, number)));
    relay.run_to_end().await;
    relay.stop(GRACE).await;
}

async fn amqps_takes_a_private_authority_and_a_client_certificate(version: RabbitVersion) {
    let certificates = Certificates::new("pgoutbox tests", "localhost");
    let node = PrivateRabbit::start_with_tls(version, &certificates, &[]).await;
    let rabbit = Rabbit::create_on(node.node(), "tls");
    rabbit.create_layout(QueueKind::Classic);
    let (certificate, key) = certificates.client(rabbit.name());
    let url = format!("amqps://localhost:{}/{}", node.node().tls_port, rabbit.name());
    let mut config = config(&[url]);
    config.sasl = Sasl::External;
    let (_, _, failure) = refusal(&config).await;
    assert_eq!(failure.class(), Class::Fixable, "{failure}");
    assert!(failure.way_out().is_some_and(|hint| hint.contains("ca_file")), "{failure:?}");
    config.tls =
        TlsFiles { ca_file: Some(certificates.authority()), identity: Some((certificate, key)) };
    let mut relay = Relay::with(&config, &[]).await.expect("the certificate is the login");
    relay.push((0..100).map(|number| numbered("order", number, number)));
    relay.run_to_end().await;
    relay.stop(GRACE).await;
    let (certificate, key) = certificates.client("somebody else");
    config.tls.identity = Some((certificate, key));
    let (class, code, failure) = refusal(&config).await;
    assert_eq!((class, code.as_str()), (Class::Fixable, "403"), "{failure}");
}
