//! `sslmode` has libpq's meaning, for the ordinary connection and for that of replication.

use std::path::Path;

use pgoutbox::failure::Class;

use super::{encrypted, refusals, settings};
use crate::support::{Certificates, Database, PrivatePostgres, Relay, SHORT, Server};

on_both_servers!(
    every_sslmode_encrypts_both_connections_or_neither,
    certificates_are_verified_on_both_connections,
    a_server_without_tls_is_refused_where_tls_is_wanted,
);

/// The only name in the server's certificate; `127.0.0.1` leads to it too and is not in there.
const HOST: &str = "localhost";

async fn every_sslmode_encrypts_both_connections_or_neither(server: Server) {
    let certificates = Certificates::new("ours", HOST);
    let postgres = encrypting(server, &certificates).await;
    let database = Database::create_on(&postgres.cluster(), "tls").await;
    database.create_outbox().await;
    Relay::init(&settings(&database, &database.relay_url()), &database.admin_url());
    for (mode, is_encrypted) in [
        ("sslmode=disable", false),
        ("", true),
        ("sslmode=prefer", true),
        ("sslmode=require", true),
        (&*verify_full(&certificates.authority()), true),
    ] {
        let url = format!("{}?{mode}", named(&database));
        let mut relay = Relay::streaming(&settings(&database, &url)).await;
        assert_eq!(encrypted(database.sql()).await, [is_encrypted; 3], "{mode}");
        assert!(relay.terminate(SHORT).await.success());
    }
}

async fn certificates_are_verified_on_both_connections(server: Server) {
    let certificates = Certificates::new("ours", HOST);
    let postgres = encrypting(server, &certificates).await;
    let database = Database::create_on(&postgres.cluster(), "verify").await;

    let url = format!("{}?{}", database.relay_url(), verify_full(&certificates.authority()));
    for failure in refusals(&url).await {
        assert_eq!(failure.class(), Class::Fixable, "{failure}");
        assert!(failure.to_string().contains("127.0.0.1"), "{failure}");
        assert!(failure.way_out().unwrap().contains("a name in the certificate"), "{failure:?}");
    }

    // One that nobody has heard of, and one with the name of the right one.
    for (authority, reason) in [("theirs", "UnknownIssuer"), ("ours", "BadSignature")] {
        let stranger = Certificates::new(authority, HOST);
        let url = format!("{}?{}", named(&database), verify_full(&stranger.authority()));
        for failure in refusals(&url).await {
            assert_eq!(failure.class(), Class::Fixable, "{failure}");
            assert!(failure.to_string().contains(reason), "{failure}");
            assert!(failure.way_out().unwrap().contains("sslrootcert"), "{failure:?}");
        }
    }
}

async fn a_server_without_tls_is_refused_where_tls_is_wanted(server: Server) {
    let postgres = PrivatePostgres::start(server, &[("ssl", "off")]).await;
    let database = Database::create_on(&postgres.cluster(), "plain").await;
    database.create_outbox().await;
    let certificates = Certificates::new("ours", HOST);
    for mode in ["sslmode=require", &verify_full(&certificates.authority())] {
        for failure in refusals(&format!("{}?{mode}", named(&database))).await {
            assert_eq!(failure.class(), Class::Fixable, "{failure}");
            assert!(failure.to_string().contains("support TLS"), "{failure}");
        }
    }

    let prefer = settings(&database, &format!("{}?sslmode=prefer", named(&database)));
    Relay::init(&prefer, &database.admin_url());
    let _relay = Relay::streaming(&prefer).await;
    assert_eq!(encrypted(database.sql()).await, [false; 3]);
}

async fn encrypting(server: Server, certificates: &Certificates) -> PrivatePostgres {
    let (certificate, key) = (certificates.certificate(), certificates.key());
    let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
    let ssl = [("ssl", "on"), ("ssl_cert_file", certificate), ("ssl_key_file", key)];
    PrivatePostgres::start(server, &ssl).await
}

/// The database's URL by the name in the certificate.
fn named(database: &Database) -> String {
    database.relay_url().replace("127.0.0.1", HOST)
}

fn verify_full(authority: &Path) -> String {
    format!("sslmode=verify-full&sslrootcert={}", authority.display())
}
