//! `sslmode` means what it means to libpq, on both kinds of connection.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;

use super::*;

on_both_servers!(
    sslmode_encrypts_and_verifies_as_in_libpq,
    an_authoritys_own_certificate_is_refused_with_a_hint,
    a_server_without_tls_is_refused_unless_tls_is_only_preferred,
);

/// An authority's certificate in PEM, and one for 127.0.0.1 that it issued, with its key.
struct Certificates {
    authority: String,
    authority_key: String,
    server: String,
    server_key: String,
}

fn certificates() -> Certificates {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let server_key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let server = params.signed_by(&server_key, &authority).unwrap();
    Certificates {
        authority: authority.pem(),
        authority_key: authority.key().serialize_pem(),
        server: server.pem(),
        server_key: server_key.serialize_pem(),
    }
}

/// A database whose server lets the relay's role in only by TLS.
async fn encrypted(server: Server, certificate: &str, key: &str) -> (PrivatePostgres, Database) {
    let postgres = PrivatePostgres::start(server, &[]).await;
    let database = Database::create_on(&postgres.cluster(), "tls").await;
    let data = postgres.data_directory();
    put(&data, "server.crt", certificate);
    put(&data, "server.key", key);
    let name = database.name();
    let rules = format!(
        "hostssl all {name} 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 scram-sha-256\n"
    );
    put(&data, "pg_hba.conf", &rules);
    database.sql().run("ALTER SYSTEM SET ssl = on").await;
    database.sql().run("SELECT pg_reload_conf()").await;
    let sql = database.sql();
    wait_until("TLS", SHORT, async || (sql.value("SHOW ssl").await? == "on").then_some(())).await;
    (postgres, database)
}

fn put(data: &Path, name: &str, text: &str) {
    let file = data.join(name);
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let owner = fs::metadata(data).unwrap();
    chown(&file, Some(owner.uid()), Some(owner.gid())).unwrap();
}

/// The relay's settings with this host and these parameters of the URL.
fn with(database: &Database, host: &str, parameters: &str) -> Settings {
    let url = database.relay_url().replace("127.0.0.1", host);
    settings(database).with("source.postgres.url", format!("{url}?{parameters}"))
}

#[track_caller]
fn refuses(checked: &Checked, words: &[&str], hint: &str) {
    let mut all = vec!["connection"];
    all.extend(words);
    let fix = checked.fix("error", &all);
    assert!(fix.contains(hint), "{fix}");
}

async fn sslmode_encrypts_and_verifies_as_in_libpq(server: Server) {
    let certificates = certificates();
    let (_postgres, database) =
        encrypted(server, &certificates.server, &certificates.server_key).await;
    init(&database, &settings(&database), &["--create-table"]).await;
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("ca.pem");
    fs::write(&file, &certificates.authority).unwrap();
    let root = format!("sslrootcert={}", file.display());

    for (host, parameters) in [
        ("127.0.0.1", "sslmode=prefer".to_owned()),
        ("127.0.0.1", "sslmode=require".to_owned()),
        ("localhost", format!("sslmode=verify-ca&{root}")),
        ("127.0.0.1", format!("sslmode=verify-full&{root}")),
    ] {
        let checked = check(&with(&database, host, &parameters)).await;
        assert_eq!(checked.of("error"), [""; 0], "{host} {parameters}");
    }

    let plain = check(&with(&database, "127.0.0.1", "sslmode=disable")).await;
    refuses(&plain, &["28000"], "pg_hba.conf");
    let name = check(&with(&database, "localhost", &format!("sslmode=verify-full&{root}"))).await;
    refuses(&name, &["localhost"], "by a name in the certificate");
    let unknown = check(&with(&database, "127.0.0.1", "sslmode=verify-full")).await;
    refuses(&unknown, &["UnknownIssuer"], "sslrootcert");
}

async fn an_authoritys_own_certificate_is_refused_with_a_hint(server: Server) {
    let certificates = certificates();
    let (_postgres, database) =
        encrypted(server, &certificates.authority, &certificates.authority_key).await;
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("ca.pem");
    fs::write(&file, &certificates.authority).unwrap();
    let parameters = format!("sslmode=verify-ca&sslrootcert={}", file.display());
    refuses(&check(&with(&database, "127.0.0.1", &parameters)).await, &[], "CA:TRUE");
}

async fn a_server_without_tls_is_refused_unless_tls_is_only_preferred(server: Server) {
    let database = Database::create(server, "plain").await;
    init(&database, &settings(&database), &["--create-table"]).await;
    let preferred = check(&with(&database, "127.0.0.1", "sslmode=prefer")).await;
    assert_eq!(preferred.of("error"), [""; 0]);
    for mode in ["require", "verify-full"] {
        let checked = check(&with(&database, "127.0.0.1", &format!("sslmode={mode}"))).await;
        refuses(&checked, &["does not support TLS"], "");
    }
}
