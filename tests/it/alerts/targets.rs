//! Who is told, how often, and what of it anybody sees.

use serde_json::{Value, json};

use super::Watched;
use crate::support::{
    Certificates, Database, PASSWORD, PrivateAlertmanager, Relay, SHORT, Server, Settings, USER,
    Webhook, wait_until,
};

#[tokio::test(flavor = "multi_thread")]
async fn an_alert_is_sent_again_and_its_end_once() {
    let scene = Scene::new().await;
    let _relay = Relay::streaming(&scene.settings).await;
    scene.break_it().await;
    let again = || scene.documents("firing", "PgoutboxPublicationGap").len();
    wait_until("an alert that is sent again", SHORT, async || (again() >= 3).then_some(())).await;
    scene.watched.fires("PgoutboxPublicationGap", &["public.outbox"]).await;

    scene.mend_it().await;
    scene.watched.is_over("PgoutboxPublicationGap").await;
    let over = wait_until("the end", SHORT, async || {
        scene.documents("resolved", "PgoutboxPublicationGap").pop()
    })
    .await;
    assert!(over["ends_at"].as_str() > over["starts_at"].as_str(), "{over}");
    // One more round, and nothing of it.
    let rounds = scene.webhook.requests().len();
    scene.break_it().await;
    wait_until("the next one", SHORT, async || {
        (scene.webhook.requests().len() > rounds).then_some(())
    })
    .await;
    assert_eq!(scene.documents("resolved", "PgoutboxPublicationGap").len(), 1);
}

/// What fires goes on over a reload, and is over with the reload that takes its rule away.
#[tokio::test(flavor = "multi_thread")]
async fn an_alert_outlives_a_reload_and_not_its_rule() {
    let scene = Scene::new().await;
    let with = |rules: Value| scene.settings.clone().with("alerts.rules", rules);
    let rule = json!({"above": 0, "name": "SomebodyReads"});
    let mut relay = Relay::streaming(&with(json!([{"slot_active": rule}]))).await;
    let firing = || scene.documents("firing", "SomebodyReads");
    let first = wait_until("the alert", SHORT, async || firing().pop()).await;

    relay.reload(&with(json!([{"slot_active": rule}, {"halted": {"for": "1s"}}])));
    relay.wait_for_log(&["read again and is in force"], SHORT).await;
    let before = firing().len();
    wait_until("the alert again", SHORT, async || (firing().len() > before).then_some(())).await;
    assert!(firing().iter().all(|alert| alert["starts_at"] == first["starts_at"]));
    assert!(scene.documents("resolved", "SomebodyReads").is_empty());

    relay.reload(&with(json!([])));
    let over = || scene.documents("resolved", "SomebodyReads");
    wait_until("its end", SHORT, async || over().pop()).await;
    scene.watched.is_over("SomebodyReads").await;
}

/// A target that is away or refuses costs neither the others nor the relay anything, is tried again,
/// and is told how things stand.
#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_fails_is_tried_again() {
    let mut scene = Scene::new().await;
    scene.watched.alertmanager.kill();
    scene.webhook.answer(500);
    let mut relay = Relay::streaming(&scene.settings).await;
    scene.break_it().await;
    for target in ["alertmanager", "webhook"] {
        let label = format!("target=\"{target}\"");
        wait_until("failures that are counted", SHORT, async || {
            let failed =
                relay.metric("pgoutbox_alert_notification_failures_total", &[&label]).await;
            failed.filter(|failed| *failed >= 2.0)
        })
        .await;
    }
    scene.webhook.answer(200);
    scene.watched.alertmanager.start_again().await;
    scene.watched.fires("PgoutboxPublicationGap", &["public.outbox"]).await;
    relay.wait_for_log(&["alerts are taken again", "webhook"], SHORT).await;
    relay.wait_for_log(&["alerts are taken again", "alertmanager"], SHORT).await;
    let lines = relay.log().matches("alerts are not taken").count();
    assert_eq!(lines, 2, "a line a target: {}", relay.log());
}

/// Path, query, user, password and token of an address are sent, and seen nowhere else.
#[tokio::test(flavor = "multi_thread")]
async fn secrets_of_a_target_are_sent_and_never_shown() {
    let scene = Scene::new().await;
    let url = format!("http://127.0.0.1:{}/hush-path?key=hush-key", scene.webhook.port());
    let webhook = json!({"url": url, "bearer_token": "hush-token"});
    let gone = "http://hush-user:hush-password@127.0.0.1:1/hush-path";
    let settings = scene
        .settings
        .clone()
        .with("alerts.webhook", webhook)
        .with("alerts.alertmanager", json!([scene.watched.alertmanager.url(), gone]));
    let mut relay = Relay::start_with(&settings, &[], &[("RUST_LOG", "trace")]);
    relay.wait_state("streaming", SHORT).await;
    scene.break_it().await;
    let request = wait_until("a request", SHORT, async || scene.webhook.requests().pop()).await;
    assert!(request.head.starts_with("POST /hush-path?key=hush-key "), "{}", request.head);
    assert!(request.head.to_lowercase().contains("authorization: bearer hush-token"));
    scene.watched.fires("PgoutboxPublicationGap", &[]).await;
    relay.wait_for_log(&["alerts are not taken", "http://127.0.0.1:1"], SHORT).await;

    let mut seen = vec![relay.log()];
    for path in ["/status", "/alerts", "/metrics"] {
        seen.push(relay.get(path).await.unwrap().1);
    }
    for command in [["list", "--json"].as_slice(), &["list"], &["test"]] {
        let output = alerts(&settings, command);
        seen.extend([&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it).into()));
    }
    for text in seen {
        assert!(!text.contains("hush"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn alerts_test_tells_everyone_and_says_how_it_went() {
    let scene = Scene::new().await;
    let output = alerts(&scene.settings, &["test"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("ok     alertmanager at http://127.0.0.1:"), "{text}");
    assert!(text.contains("ok     webhook at http://127.0.0.1:"), "{text}");
    for status in ["firing", "resolved"] {
        assert_eq!(scene.documents(status, "PgoutboxTest").len(), 1);
    }

    scene.webhook.answer(503);
    let output = alerts(&scene.settings, &["test"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("error  webhook at ") && text.contains("503"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alertmanager_behind_tls_and_a_login_is_told() {
    let certificates = Certificates::new("alerts", "localhost");
    let alertmanager = PrivateAlertmanager::start_with_tls(&certificates).await;
    let scene = Scene::new().await;
    let test = |password: &str, tls: Value| {
        let url = format!("https://localhost:{}", alertmanager.port());
        let target = json!({"url": url, "username": USER, "password": password, "tls": tls});
        let settings = scene.settings.clone().with("alerts.alertmanager", target);
        String::from_utf8_lossy(&alerts(&settings, &["test"]).stdout).into_owned()
    };
    let trust = json!({"ca_file": certificates.authority().to_str().unwrap()});
    let text = test(PASSWORD, trust.clone());
    assert!(text.contains("ok     alertmanager at https://localhost:"), "{text}");
    let text = test("another", trust);
    assert!(text.contains("error  alertmanager at") && text.contains("401"), "{text}");
    let text = test(PASSWORD, json!({}));
    assert!(text.contains("no TLS with alertmanager at `localhost`"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn alerts_list_shows_how_the_rules_stand() {
    let scene = Scene::new().await;
    let list = || -> Value {
        let output = alerts(&scene.settings, &["list", "--json"]);
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let state = |list: &Value| {
        let rules = list["alerts"].as_array().unwrap();
        let gap = rules.iter().find(|rule| rule["name"] == "PgoutboxPublicationGap").unwrap();
        gap["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(state(&list()), "unknown");
    let relay = Relay::streaming(&scene.settings).await;
    wait_until("a first look", SHORT, async || (state(&list()) == "inactive").then_some(())).await;
    scene.break_it().await;
    wait_until("the alert", SHORT, async || (state(&list()) == "firing").then_some(())).await;

    let output = alerts(&scene.settings, &["list"]);
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.contains("PgoutboxPublicationGap")).unwrap();
    assert!(line.starts_with("firing   critical"), "{text}");
    let status = relay.status().await.unwrap();
    let firing = status["alerts"].as_array().unwrap();
    assert!(firing.iter().all(|alert| alert["state"] == "firing"), "{status}");
    let is_gap = |alert: &Value| alert["name"] == "PgoutboxPublicationGap";
    assert!(firing.iter().any(is_gap), "{status}");
}

fn alerts(settings: &Settings, arguments: &[&str]) -> std::process::Output {
    // `-c FILE` belongs to the second word.
    Relay::subcommand(settings, "alerts", arguments)
}

struct Scene {
    watched: Watched,
    webhook: Webhook,
    settings: Settings,
    database: Database,
}

impl Scene {
    /// With an alert that a relay without events can be made to fire.
    async fn new() -> Self {
        let (watched, webhook) = (Watched::new().await, Webhook::start().await);
        let database = Database::create(Server::Newest, "alerts").await;
        database.create_outbox().await;
        let settings =
            watched.settings(Settings::stdout(&database), &[("publication_gap", json!({}))]);
        let settings =
            settings.with("alerts.webhook", format!("http://127.0.0.1:{}/hook", webhook.port()));
        Relay::init(&settings, &database.admin_url());
        Self { watched, webhook, settings, database }
    }

    async fn break_it(&self) {
        let alter = format!("ALTER PUBLICATION {} DROP TABLE outbox", self.database.name());
        self.database.sql().run(&alter).await;
    }

    async fn mend_it(&self) {
        let alter = format!("ALTER PUBLICATION {} ADD TABLE outbox", self.database.name());
        self.database.sql().run(&alter).await;
    }

    /// What the webhook was told of one alert.
    fn documents(&self, status: &str, name: &str) -> Vec<Value> {
        let requests = self.webhook.requests();
        let alerts = requests.iter().flat_map(|request| request.body["alerts"].as_array().unwrap());
        let wanted = |alert: &&Value| alert["name"] == name && alert["status"] == status;
        alerts.filter(wanted).cloned().collect()
    }
}
