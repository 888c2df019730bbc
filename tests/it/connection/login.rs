//! Who logs in, and the ways to write where a server is.

use pgoutbox::failure::Class;

use super::{refusals, settings};
use crate::support::{Database, PrivatePostgres, Relay, SHORT, Server};

on_both_servers!(
    every_form_of_a_connection_string_leads_to_the_server,
    a_wrong_password_ends_the_start_and_is_never_shown,
    a_standby_is_one_clear_refusal,
);

/// Everything that a URL, a quoted value and a shell would want escaped.
const PASSWORD: &str = r"p@ss:w/rd?#%25 $é'\";

async fn every_form_of_a_connection_string_leads_to_the_server(server: Server) {
    let postgres = PrivatePostgres::start(server, &[]).await;
    let database = Database::create_on(&postgres.cluster(), "forms").await;
    database.create_outbox().await;
    Relay::init(&settings(&database, &database.relay_url()), &database.admin_url());
    let name = database.name();
    let password = PASSWORD.replace('\'', "''");
    database.sql().run(&format!("ALTER ROLE {name} PASSWORD '{password}'")).await;

    let port = postgres.cluster().port();
    let directory = postgres.socket_directory().display();
    let escaped = escape_for_url(PASSWORD);
    let quoted = PASSWORD.replace('\\', r"\\").replace('\'', r"\'");
    for url in [
        format!("postgres://{name}:{escaped}@127.0.0.1:{port}/{name}"),
        format!("postgresql:///{name}?host={directory}&port={port}&user={name}&password={escaped}"),
        format!("host=127.0.0.1 port={port} user={name} password='{quoted}' dbname = {name}"),
        format!("host={directory} port={port} user={name} password='{quoted}' dbname={name}"),
    ] {
        // With all there is to say.
        let environment = [("PGOUTBOX_LOG", "trace")];
        let mut relay = Relay::start_with(&settings(&database, &url), &[], &environment);
        relay.wait_state("streaming", SHORT).await;
        for path in ["/status", "/metrics", "/readyz"] {
            is_not_shown(&relay.get(path).await.unwrap().1, &[PASSWORD, &escaped]);
        }
        assert!(relay.terminate(SHORT).await.success());
        is_not_shown(&relay.log(), &[PASSWORD, &escaped, &quoted]);
    }
}

async fn a_wrong_password_ends_the_start_and_is_never_shown(server: Server) {
    let database = Database::create(server, "login").await;
    database.create_outbox().await;
    let right = settings(&database, &database.relay_url());
    Relay::init(&right, &database.admin_url());
    let url = database.relay_url().replace(":relay@", ":hush-hush@");
    for failure in refusals(&url).await {
        assert_eq!(failure.class(), Class::Fixable, "{failure}");
        assert_eq!(failure.peer_code(), Some("28P01"), "{failure}");
        is_not_shown(&format!("{failure} {failure:?}"), &["hush-hush"]);
    }

    let environment = [("PGOUTBOX_LOG", "trace")];
    let wrong = settings(&database, &url);
    let mut relay = Relay::start_with(&wrong, &[], &environment);
    assert_eq!(relay.wait_exit(SHORT).await.code(), Some(1));
    is_not_shown(&relay.log(), &["hush-hush"]);
    for command in ["run", "check"] {
        let (code, text) = end_of(&wrong, command);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("28P01"), "{text}");
        is_not_shown(&text, &["hush-hush"]);
    }
    // A password with an unescaped `/` spills into the rest of the URL.
    let (code, text) = end_of(&settings(&database, &url.replace("hush", "hu/sh")), "run");
    assert_eq!(code, Some(2), "{text}");
    is_not_shown(&text, &["hu/sh", "sh-hu"]);
}

async fn a_standby_is_one_clear_refusal(server: Server) {
    let primary = PrivatePostgres::start(server, &[]).await;
    let database = Database::create_on(&primary.cluster(), "standby").await;
    database.create_outbox().await;
    Relay::init(&settings(&database, &database.relay_url()), &database.admin_url());
    let standby = primary.start_standby(&[]).await;

    let url = database.relay_url_at(standby.cluster().port());
    let (code, text) = end_of(&settings(&database, &url), "run");
    assert_eq!(code, Some(1), "{text}");
    let errors: Vec<&str> = text.lines().filter(|line| line.starts_with("error")).collect();
    assert_eq!(errors.len(), 1, "{text}");
    assert!(errors[0].contains("is a standby"), "{text}");
    assert!(text.contains("hint: connect to the primary"), "{text}");
}

/// Exit code of a command that ends by itself, and all it prints.
fn end_of(settings: &crate::support::Settings, command: &str) -> (Option<i32>, String) {
    let output = tokio::task::block_in_place(|| Relay::command(settings, command, &[]));
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code(), text.concat())
}

#[track_caller]
fn is_not_shown(text: &str, secrets: &[&str]) {
    for secret in secrets {
        assert!(!text.contains(secret), "{secret} in: {text}");
    }
}

fn escape_for_url(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte.is_ascii_alphanumeric() {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect()
}
