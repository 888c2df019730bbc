use super::*;

const MIB: usize = 1024 * 1024;

/// As a cluster of three brokers has it where nobody changed anything but the copies.
fn healthy(name: &str) -> Topic {
    let settings = [
        ("cleanup.policy", "delete"),
        ("max.message.bytes", "1048588"),
        ("message.timestamp.after.max.ms", "3600000"),
        ("message.timestamp.before.max.ms", "9223372036854775807"),
        ("message.timestamp.type", "CreateTime"),
        ("min.insync.replicas", "2"),
        ("retention.ms", "604800000"),
        ("unclean.leader.election.enable", "false"),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    Topic { name: name.to_owned(), copies: 3, in_sync: (0, 3), settings }
}

fn with(name: &str, value: &str) -> Topic {
    let mut topic = healthy("t");
    topic.settings.insert(name.to_owned(), value.to_owned());
    topic
}

fn lines(topics: Vec<Topic>, size: usize, max_event_size: usize) -> Vec<String> {
    let facts = Facts { brokers: "b:9092".to_owned(), size, topics, ..Facts::default() };
    let findings = judge("sink `events`", &facts, max_event_size).into_iter();
    let faults = findings.filter(|finding| finding.severity != Severity::Ok);
    faults.map(|it| format!("{}: {} | {}", it.severity, it.message, it.fix.unwrap())).collect()
}

/// The one fault of a topic.
#[track_caller]
fn fault(topic: Topic) -> String {
    match lines(vec![topic], 3, MIB).as_slice() {
        [line] => line.clone(),
        lines => panic!("{lines:#?}"),
    }
}

#[test]
fn a_healthy_topic_is_silent() {
    assert_eq!(lines(vec![healthy("t")], 3, MIB), [""; 0]);
    // The only broker there is.
    let single = Topic { copies: 1, in_sync: (0, 1), ..with("min.insync.replicas", "1") };
    assert_eq!(lines(vec![single], 1, MIB), [""; 0]);
    assert_eq!(lines(vec![with("retention.ms", "-1")], 3, MIB), [""; 0]);
}

#[test]
fn an_event_that_a_topic_refuses_for_its_size_is_foreseen() {
    insta::assert_snapshot!(lines(vec![healthy("a"), healthy("b")], 3, 16 * MIB).join("\n"), @"warning: topics `a`, `b`: `max.message.bytes` is 1048588, and `max_event_size` is 16777216: an event between the two can never be delivered, and halts (or set `max_event_size: 1048588`) | `kafka-configs.sh --bootstrap-server b:9092 --alter --entity-type topics --entity-name a --add-config max.message.bytes=18875392`, and so for the others");
}

#[test]
fn copies_are_held_against_what_an_ack_asks_for() {
    let of = |copies, least| Topic {
        copies,
        in_sync: (0, copies),
        ..with("min.insync.replicas", least)
    };
    assert!(fault(of(1, "1")).contains("has one copy"));
    assert!(fault(of(2, "1")).contains("an event may be acknowledged with one copy"));
    assert!(fault(of(2, "2")).contains("2 of 2 copies: while one broker is away, nothing"));
    assert!(fault(of(3, "1")).ends_with("--add-config min.insync.replicas=2`"));
    assert!(fault(of(3, "3")).ends_with("--add-config min.insync.replicas=2`"));
    let behind = Topic { in_sync: (4, 1), ..healthy("t") };
    assert!(fault(behind).starts_with("error: topic `t`: partition 4 has 1 of 3 copies in sync"));
    let unclean = with("unclean.leader.election.enable", "true");
    assert!(fault(unclean).ends_with("unclean.leader.election.enable=false`"));
}

#[test]
fn what_a_topic_decides_by_age_counts_from_the_commit() {
    assert!(fault(with("retention.ms", "3600000")).contains("3600000 (60 minutes)"));
    let before = fault(with("message.timestamp.before.max.ms", "7200000"));
    assert!(before.contains("7200000 (2 hours): an event whose commit is older is refused"));
    assert!(fault(with("message.timestamp.difference.max.ms", "1000")).contains("(1 seconds)"));
    assert!(
        fault(with("message.timestamp.after.max.ms", "0")).contains("is ahead of the broker's")
    );
    let mut broker_time = with("retention.ms", "3600000");
    broker_time.settings.insert("message.timestamp.type".to_owned(), "LogAppendTime".to_owned());
    assert_eq!(lines(vec![broker_time], 3, MIB), [""; 0]);
}

#[test]
fn compaction_keeps_the_last_event_of_a_key_only() {
    assert!(fault(with("cleanup.policy", "compact,delete")).contains("only the last event stays"));
}

#[test]
fn what_may_not_be_read_is_said_to_be_unknown() {
    let topic = Topic { settings: std::collections::BTreeMap::new(), ..healthy("t") };
    let facts = Facts {
        brokers: "b:9092".to_owned(),
        principal: Some("relay".to_owned()),
        size: 3,
        creates_topics: false,
        topics: vec![topic],
        missing: vec!["gone".to_owned()],
    };
    let lines: Vec<String> =
        judge("sink `events`", &facts, MIB).iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    warning  sink `events`: topic `gone` does not exist (or may not be seen): its first event halts, unless the brokers create topics by themselves
             fix: `kafka-topics.sh --bootstrap-server b:9092 --create --topic gone`
    ok       sink `events`: topic `t`: sizes, copies and retention are not checked, since the relay may not read the settings
             fix: `kafka-acls.sh --bootstrap-server b:9092 --add --allow-principal User:relay --operation DescribeConfigs --topic t`
    ");
}
