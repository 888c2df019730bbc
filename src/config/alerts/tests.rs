//! Whole `alerts` sections, and the one error that each wrong one gets.

use std::path::PathBuf;
use std::time::Duration;

use super::*;
use crate::config::Config;

fn parse(alerts: &str) -> Result<AlertsConfig, String> {
    let text =
        format!("source: {{postgres: {{url: postgres://localhost/shop}}}}\nalerts:\n{alerts}");
    let env = |name: &str| (name == "TOKEN").then(|| "hush-token".to_owned());
    let config = Config::parse(&text, Some(PathBuf::from("/etc/pgoutbox.yaml")), &env);
    config.map(|config| config.alerts).map_err(|error| error.to_string())
}

#[track_caller]
fn rule<'a>(alerts: &'a AlertsConfig, name: &str) -> &'a AlertRule {
    alerts.rules.iter().find(|rule| rule.name == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn without_a_section_the_defaults_are_on_and_nobody_is_told() {
    let alerts = AlertsConfig::default();
    assert_eq!(alerts.rules.len(), DEFAULT_RULES.len());
    assert!(alerts.alertmanagers.is_empty() && alerts.webhook.is_none());
    let lag = rule(&alerts, "PgoutboxSlotLagSeconds");
    assert_eq!((lag.threshold, lag.clear, lag.wait), (300.0, 60.0, Duration::from_secs(30)));
    assert_eq!(lag.runbook_url.as_deref(), Some("docs/runbooks/slot-lag-seconds.md"));
    assert_eq!(parse("  {}").unwrap().rules, alerts.rules);
}

#[test]
fn every_default_is_a_rule_that_can_end_and_has_its_own_name() {
    for rule in DEFAULT_RULES {
        assert!(!rule.bound.is_past(rule.clear, rule.threshold), "{}", rule.name);
        assert!(is_name(rule.name) && rule.name.starts_with("Pgoutbox"), "{}", rule.name);
        let same = |other: &&DefaultRule| {
            other.name == rule.name
                || (other.metric == rule.metric && other.severity == rule.severity)
        };
        assert_eq!(DEFAULT_RULES.iter().filter(same).count(), 1, "{}", rule.name);
    }
}

const WHOLE: &str = r#"
  alertmanager:
    - http://alertmanager:9093
    - {url: "https://[::1]:9093/prefix", username: me, password: hush-password, tls: {ca_file: ca.pem}}
    - https://us%40er:hush%2Fword@two:9093
  webhook: {url: "https://hooks.example.com/hush-path?key=hush-key", bearer_token: "${env:TOKEN}"}
  repeat: 5m
  labels: {team: shop}
  runbooks: https://wiki/runbooks/
  rules:
    - slot_confirmed_lag_bytes: {above: 1GiB, for: 1m, severity: critical}
    - slot_seconds_to_exhaustion: {below: 30m, severity: critical, clear: 1h, clear_after: 5m}
    - pgoutbox_slot_lag_seconds: {enabled: false}
    - slot_wal_status: {above: extended, name: WalStatusOurs, labels: {page: "yes"}}
    - slot_safe_wal_bytes: {below: 2GiB}
    - window_events: {for: 10m}
    - halted: {runbook_url: https://wiki/halted}
"#;

#[test]
fn every_key_is_read() {
    let alerts = parse(WHOLE).unwrap();
    let shown: Vec<&str> = alerts.alertmanagers.iter().map(|target| &*target.shown).collect();
    assert_eq!(shown, ["http://alertmanager:9093", "https://[::1]:9093", "https://two:9093"]);
    let [_, files, login] = &*alerts.alertmanagers else { panic!("three") };
    assert_eq!(files.url.expose(), "https://[::1]:9093/prefix");
    assert_eq!(files.tls.ca_file, Some(PathBuf::from("/etc/ca.pem")));
    let Some(Login::Password { username, password }) = &login.login else { panic!("a login") };
    assert_eq!((&**username, password.expose()), ("us@er", "hush/word"));
    let webhook = alerts.webhook.as_ref().unwrap();
    assert_eq!(webhook.url.expose(), "https://hooks.example.com/hush-path?key=hush-key");
    assert!(matches!(&webhook.login, Some(Login::Token(token)) if token.expose() == "hush-token"));
    assert_eq!(alerts.repeat, Duration::from_secs(300));

    // In a default's place, with what the file leaves out as it is there.
    let lag = rule(&alerts, "PgoutboxSlotLagBytes");
    let gib = 1_073_741_824.0;
    assert_eq!((lag.threshold, lag.clear, lag.wait), (gib, gib, Duration::from_secs(60)));
    assert_eq!(lag.severity, Severity::Critical);
    assert_eq!(lag.runbook_url.as_deref(), Some("https://wiki/runbooks/slot-lag-bytes.md"));
    let backlog = rule(&alerts, "PgoutboxBacklog");
    assert_eq!((backlog.threshold, backlog.clear), (10_000.0, 5_000.0));
    assert_eq!(backlog.wait, Duration::from_secs(600));
    // Of two of one metric, the one of its severity.
    let soon = rule(&alerts, "PgoutboxSlotExhaustionImminent");
    assert_eq!((soon.threshold, soon.clear), (1800.0, 3600.0));
    assert_eq!(soon.clear_after, Duration::from_secs(300));
    assert_eq!(rule(&alerts, "PgoutboxSlotExhaustion").threshold, 21_600.0);
    // Beside the defaults.
    let ours = rule(&alerts, "WalStatusOurs");
    assert_eq!((ours.threshold, ours.labels["page"].as_str()), (1.0, "yes"));
    assert_eq!(rule(&alerts, "PgoutboxSlotSafeWalBytes").severity, Severity::Warning);
    let halted = rule(&alerts, "PgoutboxHalted");
    assert_eq!(halted.runbook_url.as_deref(), Some("https://wiki/halted"));
    assert!(alerts.rules.iter().all(|rule| rule.name != "PgoutboxSlotLagSeconds"));
    assert_eq!(alerts.rules.len(), DEFAULT_RULES.len() + 1);
}

#[test]
fn a_rule_keeps_the_place_of_the_default_that_it_replaces() {
    let names = |alerts: &AlertsConfig| -> Vec<String> {
        alerts.rules.iter().map(|rule| rule.name.clone()).collect()
    };
    let mut expected = names(&AlertsConfig::default());
    expected.retain(|name| name != "PgoutboxSlotLagSeconds");
    expected.push("Ours".to_owned());
    let rules =
        "halted: {for: 1s}}, {window_events: {for: 10m}}, {slot_lag_seconds: {enabled: false}";
    let alerts = format!("  rules: [{{halted: {{above: 0, name: Ours}}}}, {{{rules}}}]");
    assert_eq!(names(&parse(&alerts).unwrap()), expected);
}

#[test]
fn defaults_can_be_off() {
    let alerts = parse("  defaults: off\n  rules: [halted: {above: 0}]").unwrap();
    let names: Vec<&str> = alerts.rules.iter().map(|rule| &*rule.name).collect();
    assert_eq!(names, ["PgoutboxHalted"]);
}

#[test]
fn nothing_secret_is_shown() {
    let shown = format!("{:?}", parse(WHOLE).unwrap());
    assert!(!shown.contains("hush"), "{shown}");
}

#[track_caller]
fn check(alerts: &str, error: &str) {
    let found = parse(alerts).expect_err(alerts);
    assert_eq!(found, format!("/etc/pgoutbox.yaml:{error}"));
}

#[test]
fn a_wrong_rule_is_told_with_its_place() {
    check(
        "  rules: [slot_lag_second: {above: 5m}]",
        "3:11: unknown metric `slot_lag_second`, did you mean `slot_lag_seconds`?",
    );
    check("  rules: [window_events: {abov: 5}]", "3:27: unknown key `abov`, did you mean `above`?");
    check(
        "  rules: [slot_safe_wal_bytes: {}]",
        "3:32: `alerts.rules[0].slot_safe_wal_bytes` needs `above` or `below`",
    );
    check(
        "  rules: [window_events: {above: 5, below: 3}]",
        "3:26: `alerts.rules[0].window_events` takes `above` or `below`, not both",
    );
    check(
        "  rules: [window_events: {above: 5, clear: 6}]",
        "3:37: `alerts.rules[0].window_events.clear` must not be above `above`: it would never be over",
    );
    check(
        "  rules: [slot_lag_seconds: {above: 5}]",
        "3:37: `alerts.rules[0].slot_lag_seconds.above` must be a duration, as in `30s`, `250ms` or `5m`",
    );
    check(
        "  rules: [slot_wal_status: {above: reservd}]",
        "3:36: unknown value of `alerts.rules[0].slot_wal_status.above` `reservd`, did you mean `reserved`?",
    );
    check(
        "  rules: [halted: {severity: critcal}]",
        "3:30: unknown value of `alerts.rules[0].halted.severity` `critcal`, did you mean `critical`?",
    );
    check(
        "  rules: [window_events: {above: 5}, window_events: {above: 9}]",
        "3:38: two rules have the name `PgoutboxBacklog`: give one another `name`",
    );
    check(
        "  rules: [window_events: {above: 5, name: PgoutboxHalted}]",
        "3:11: `PgoutboxHalted` is a default rule's name, and looks at `halted`",
    );
    check(
        "  rules: [window_bytes: {enabled: false}]",
        "3:25: `alerts.rules[0].window_bytes` is switched off, and there is no default rule like it",
    );
    check("  labels: {severity: x}", "3:12: the label `severity` is every alert's own");
    check("  labels: {a-b: x}", "3:12: a label's name is of letters, digits and `_`, unlike `a-b`");
}

#[test]
fn a_wrong_target_is_told_without_its_secrets() {
    let must = "must be like `http://alertmanager:9093`";
    for url in [
        "hush:9093",
        "ftp://hush",
        "http://",
        "http://a b/hush",
        "http://a:0/hush",
        "http://a#hush",
    ] {
        check(&format!("  webhook: \"{url}\""), &format!("3:12: `alerts.webhook` {must}"));
    }
    check(
        "  webhook: http://hush@host/",
        "3:12: `alerts.webhook` has a login that is not `user:password` in percent-encoding",
    );
    check(
        "  webhook: {url: http://host, bearer_token: \"hush hush\"}",
        "3:45: `alerts.webhook.bearer_token` must be of visible ASCII characters",
    );
    check(
        "  webhook: {url: http://host, username: me}",
        "3:12: `alerts.webhook` takes `username` and `password`, or `bearer_token`",
    );
    check(
        "  webhook: {url: http://host, tls: {ca_file: a}}",
        "3:36: `alerts.webhook.tls` needs a `url` that begins with `https://`",
    );
}
