//! Topics that would refuse events, or not keep them.

use super::*;
use crate::support::{KafkaOptions, PrivateKafka};

#[tokio::test(flavor = "multi_thread")]
async fn topics_that_refuse_or_lose_events_are_found() {
    let healthy = Healthy::new(Server::Newest).await;
    for (setting, value, words) in [
        ("max.message.bytes", "100000", "can never be delivered"),
        ("retention.ms", "60000", "deleted before anybody has read it"),
        ("message.timestamp.before.max.ms", "3600000", "whose commit is older is refused"),
        ("cleanup.policy", "compact", "only the last event stays"),
        ("unclean.leader.election.enable", "true", "acknowledged events are gone"),
    ] {
        healthy.topics.configure("order", &[(setting, value)]).await;
        let topic = healthy.topics.name("order");
        let named = format!("`{setting}` is");
        let fix = finds(&healthy.settings, &["sink `events`", &topic, &named, words]).await;
        let command = typed(&fix).remove(0);
        assert!(command.starts_with("kafka-configs.sh --bootstrap-server"), "{command}");
        let (_, change) = command.split_once("--add-config ").unwrap();
        let (name, value) = change.split_once('=').unwrap();
        healthy.topics.configure("order", &[(name, value)]).await;
        is_silent(&healthy.settings).await;
    }

    healthy.database.insert("payment", "1", 1).await;
    let missing = healthy.topics.name("payment");
    let fix = finds(&healthy.settings, &[&missing, "does not exist"]).await;
    assert!(fix.contains(&format!("--create --topic {missing}")), "{fix}");
    healthy.topics.create("payment", 1, 1, &[]).await;
    is_silent(&healthy.settings).await;
}

/// Two brokers are the fewest that can have too few copies.
#[tokio::test(flavor = "multi_thread")]
async fn copies_that_are_too_few_are_found_and_what_may_not_be_read_is_named() {
    let options = KafkaOptions { two_brokers: true, acls: true, ..KafkaOptions::default() };
    let kafka = PrivateKafka::start(&options).await;
    let healthy = Healthy::new(Server::Newest).await;
    let topics = Topics::new(&kafka.brokers(), "copies");
    topics.create("one", 1, 1, &[]).await;
    topics.create("few", 1, 2, &[("min.insync.replicas", "1")]).await;
    topics.create("all", 1, 2, &[("min.insync.replicas", "2")]).await;
    let brokers = kafka.brokers();
    let brokers: Vec<&str> = brokers.split(',').collect();
    let routes: Vec<_> = ["one", "few", "all"]
        .iter()
        .map(|word| json!({"match": {"aggregate_type": word}, "topic": topics.name(word)}))
        .collect();
    let settings = healthy
        .settings
        .clone()
        .with("sinks.events.kafka.brokers", json!(brokers))
        .with("routes", json!(routes));
    for (word, words) in [
        ("one", "has one copy"),
        ("few", "an event may be acknowledged with one copy"),
        ("all", "while one broker is away, nothing is taken"),
    ] {
        let fix = finds(&settings, &[&topics.name(word), words]).await;
        assert!(fix.contains("kafka-reassign-partitions.sh"), "{fix}");
    }

    let may = |operation: &str| {
        let topic = topics.name("few");
        let user = ["--add", "--allow-principal", "User:relay"];
        kafka.acl(&[&user[..], &["--operation", operation, "--topic", &topic]].concat());
    };
    may("Write");
    may("Describe");
    let brokers = kafka.sasl_brokers();
    let brokers: Vec<&str> = brokers.split(',').collect();
    let mut settings = settings
        .with("sinks.events.kafka.brokers", json!(brokers))
        .with("routes", json!([{"topic": topics.name("few")}]));
    for (name, value) in PrivateKafka::sasl_properties() {
        settings = settings.with_kafka_property(name, value);
    }
    let checked = check(&settings).await;
    assert_eq!(complaints(&checked), [""; 0]);
    let fix = checked.fix("ok", &["are not checked", "may not read the settings"]);
    assert!(fix.contains("--operation DescribeConfigs"), "{fix}");
    may("DescribeConfigs");
    finds(&settings, &["an event may be acknowledged with one copy"]).await;
}

/// Who creates topics by asking for one would leave what a mistyped name gave: one partition, one copy.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_topic_is_named_and_not_created_though_the_brokers_would() {
    let properties = vec![("auto.create.topics.enable", "true".to_owned())];
    let options = KafkaOptions { acls: true, properties, ..KafkaOptions::default() };
    let kafka = PrivateKafka::start(&options).await;
    let healthy = Healthy::new(Server::Newest).await;
    let topics = Topics::new(&kafka.brokers(), "missing");
    let missing = topics.name("order");
    let settings = healthy
        .settings
        .clone()
        .with("sinks.events.kafka.brokers", json!([kafka.brokers()]))
        .with("routes", json!([{"topic": missing}]));
    let create = format!("--create --topic {missing}");
    let fix = check(&settings).await.fix("warning", &[&missing, "the brokers would create it"]);
    assert!(fix.contains(&create), "{fix}");
    assert!(!topics.exists("order"), "created by a look");

    // Where the brokers do not say that they would, it is an error.
    let user = ["--add", "--allow-principal", "User:relay", "--operation", "Describe"];
    kafka.acl(&[&user[..], &["--topic", &missing]].concat());
    let mut settings = settings.with("sinks.events.kafka.brokers", json!([kafka.sasl_brokers()]));
    for (name, value) in PrivateKafka::sasl_properties() {
        settings = settings.with_kafka_property(name, value);
    }
    let fix = check(&settings).await.fix("error", &[&missing, "does not exist"]);
    assert!(fix.contains(&create), "{fix}");
    assert!(!topics.exists("order"), "created by a look");
}
