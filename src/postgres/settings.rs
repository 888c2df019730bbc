//! Where a PostgreSQL server is and how to log in to it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::config::Secret;
use crate::failure::Failure;

use super::conninfo;

const DEFAULT_PORT: u16 = 5432;
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What a connection string may say.
const KEYS: [&str; 8] =
    ["host", "port", "user", "password", "dbname", "connect_timeout", "sslmode", "sslrootcert"];

/// libpq's other keys: known by name, so that the answer is not "unknown".
const OTHER_LIBPQ_KEYS: &str = "\
    application_name channel_binding client_encoding fallback_application_name gssdelegation \
    gssencmode gsslib hostaddr keepalives keepalives_count keepalives_idle keepalives_interval \
    krbsrvname load_balance_hosts max_protocol_version min_protocol_version oauth_client_id \
    oauth_client_secret oauth_issuer oauth_scope options passfile replication require_auth \
    requirepeer scram_client_key scram_server_key service servicefile sslcert sslcertmode \
    sslcompression sslcrl sslcrldir sslkey sslkeylogfile sslnegotiation sslpassword sslsni \
    target_session_attrs";

/// Everything both kinds of connection need, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The server.
    pub host: Host,
    /// TCP port, or the number in the socket file's name.
    pub port: u16,
    /// The role.
    pub user: String,
    /// Its password, if one was given.
    pub password: Option<Secret>,
    /// The database.
    pub dbname: String,
    /// Bound of the whole start of a connection: name, TCP, TLS and login.
    pub connect_timeout: Duration,
    /// Whether TLS is used and what is verified; always [`SslMode::Disable`] on a unix socket, where
    /// PostgreSQL has none.
    pub ssl_mode: SslMode,
    /// What a server certificate must descend from.
    pub ssl_root_cert: SslRootCert,
}

/// The server's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A host name or IP address.
    Tcp(String),
    /// The directory of a unix socket.
    Unix(PathBuf),
}

/// libpq's `sslmode`, with libpq's meaning (PostgreSQL manual, "SSL Support").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SslMode {
    /// Never TLS.
    Disable,
    /// TLS without verification where the server offers it, plain otherwise.
    #[default]
    Prefer,
    /// TLS or nothing; the certificate is not verified.
    Require,
    /// The certificate must descend from a trusted root.
    VerifyCa,
    /// And it must be issued for the host's name.
    VerifyFull,
}

/// Which roots are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SslRootCert {
    /// The operating system's.
    #[default]
    System,
    /// Those of a PEM file, read at every connect.
    File(PathBuf),
}

impl Settings {
    /// Reads a URL or a key=value string; `password`, where given, replaces the string's own.
    ///
    /// # Errors
    ///
    /// A [`Failure`] of class `Configuration` that names the key at fault and never any part of the
    /// string that may be secret.
    pub fn parse(text: &str, password: Option<&Secret>) -> Result<Self, Failure> {
        let pairs = conninfo::pairs(text).map_err(|error| {
            Failure::configuration("the connection string is broken").cause(error)
        })?;
        let mut draft = Draft::default();
        for (key, value) in pairs {
            draft.set(&key, value)?;
        }
        if let Some(password) = password {
            draft.password = Some(password.clone());
        }
        draft.finish()
    }

    /// Path of the socket file, where the host is a directory.
    pub fn socket_path(&self) -> Option<PathBuf> {
        match &self.host {
            Host::Tcp(_) => None,
            Host::Unix(directory) => Some(directory.join(format!(".s.PGSQL.{}", self.port))),
        }
    }
}

/// `host:port/dbname`, for messages.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Tcp(host) if host.contains(':') => write!(f, "[{host}]:{}", self.port)?,
            Host::Tcp(host) => write!(f, "{host}:{}", self.port)?,
            Host::Unix(directory) => write!(f, "{}:{}", directory.display(), self.port)?,
        }
        write!(f, "/{}", self.dbname)
    }
}

#[derive(Default)]
struct Draft {
    host: Option<String>,
    port: Option<u16>,
    user: Option<String>,
    password: Option<Secret>,
    dbname: Option<String>,
    connect_timeout: Option<Duration>,
    ssl_mode: Option<SslMode>,
    ssl_root_cert: Option<SslRootCert>,
}

impl Draft {
    fn set(&mut self, key: &str, value: String) -> Result<(), Failure> {
        match key {
            "host" => self.host = Some(one(key, value)?),
            "port" => self.port = Some(port(&one(key, value)?)?),
            "user" => self.user = Some(value),
            "password" => self.password = Some(Secret::new(value)),
            "dbname" => self.dbname = Some(value),
            "connect_timeout" => self.connect_timeout = Some(seconds(&value)?),
            "sslmode" => self.ssl_mode = Some(ssl_mode(&value)?),
            "sslrootcert" if value == "system" => self.ssl_root_cert = Some(SslRootCert::System),
            "sslrootcert" => self.ssl_root_cert = Some(SslRootCert::File(value.into())),
            other => return Err(refused(other)),
        }
        Ok(())
    }

    fn finish(self) -> Result<Settings, Failure> {
        let host = required("host", self.host)?;
        let user = required("user", self.user)?;
        let host = if host.starts_with('/') { Host::Unix(host.into()) } else { Host::Tcp(host) };
        let ssl_mode = ssl_mode_in_force(&host, self.ssl_mode, self.ssl_root_cert.as_ref())?;
        Ok(Settings {
            host,
            port: self.port.unwrap_or(DEFAULT_PORT),
            dbname: self.dbname.filter(|name| !name.is_empty()).unwrap_or_else(|| user.clone()),
            user,
            password: self.password,
            connect_timeout: self.connect_timeout.unwrap_or(DEFAULT_CONNECT_TIMEOUT),
            ssl_mode,
            ssl_root_cert: self.ssl_root_cert.unwrap_or_default(),
        })
    }
}

/// libpq's own exceptions: a root file makes `require` verify the chain, and `system`, whose roots
/// vouch for anybody, is only worth something together with the name.
fn ssl_mode_in_force(
    host: &Host,
    mode: Option<SslMode>,
    root: Option<&SslRootCert>,
) -> Result<SslMode, Failure> {
    if matches!(host, Host::Unix(_)) {
        return Ok(SslMode::Disable);
    }
    match (mode, root) {
        (None | Some(SslMode::VerifyFull), Some(SslRootCert::System)) => Ok(SslMode::VerifyFull),
        (_, Some(SslRootCert::System)) => {
            Err(Failure::configuration("`sslrootcert=system` needs `sslmode=verify-full`"))
        }
        (Some(SslMode::Require), Some(SslRootCert::File(_))) => Ok(SslMode::VerifyCa),
        (mode, _) => Ok(mode.unwrap_or_default()),
    }
}

fn required(key: &str, value: Option<String>) -> Result<String, Failure> {
    value
        .filter(|value| !value.is_empty())
        .ok_or_else(|| Failure::configuration(format!("the connection string has no `{key}`")))
}

fn one(key: &str, value: String) -> Result<String, Failure> {
    if value.contains(',') {
        return Err(Failure::configuration(format!(
            "several values of `{key}` are not supported yet"
        )));
    }
    Ok(value)
}

// The value is not quoted: after a password with an unescaped `/`, it is a part of the password.
fn port(value: &str) -> Result<u16, Failure> {
    value
        .parse()
        .ok()
        .filter(|port| *port != 0)
        .ok_or_else(|| Failure::configuration("`port` is not a number from 1 to 65535"))
}

fn seconds(value: &str) -> Result<Duration, Failure> {
    value.parse().ok().filter(|seconds| *seconds > 0).map(Duration::from_secs).ok_or_else(|| {
        Failure::configuration("`connect_timeout` is not a number of seconds above 0")
    })
}

fn ssl_mode(value: &str) -> Result<SslMode, Failure> {
    match value {
        "disable" => Ok(SslMode::Disable),
        "prefer" => Ok(SslMode::Prefer),
        "require" => Ok(SslMode::Require),
        "verify-ca" => Ok(SslMode::VerifyCa),
        "verify-full" => Ok(SslMode::VerifyFull),
        "allow" => {
            Err(Failure::configuration("`sslmode=allow` is not supported")
                .hint("use `sslmode=prefer`"))
        }
        _ => Err(Failure::configuration(
            "`sslmode` is none of disable, prefer, require, verify-ca, verify-full",
        )),
    }
}

fn refused(key: &str) -> Failure {
    if OTHER_LIBPQ_KEYS.split_whitespace().any(|other| other == key) {
        let message = format!("`{key}` in the connection string is not supported yet");
        return Failure::configuration(message);
    }
    // Something that does not look like a key may be a stray part of a password.
    if !key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') {
        return Failure::configuration("the connection string has an unknown key");
    }
    let failure = Failure::configuration(format!("unknown key `{key}` in the connection string"));
    let nearest = KEYS
        .iter()
        .map(|known| (strsim::damerau_levenshtein(key, known), known))
        .min()
        .filter(|(distance, _)| *distance <= 3);
    match nearest {
        Some((_, known)) => failure.hint(format!("did you mean `{known}`?")),
        None => failure.hint(format!("known are {}", KEYS.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Class;

    fn parse(text: &str) -> Settings {
        Settings::parse(text, None).unwrap()
    }

    #[track_caller]
    fn is_refused(text: &str, expected: &str) {
        let failure = Settings::parse(text, None).unwrap_err();
        assert_eq!(failure.class(), Class::Configuration);
        let message = format!("{failure} {}", failure.way_out().unwrap_or_default());
        assert!(message.contains(expected), "{message}");
        assert!(!format!("{failure:?} {message}").contains("hush"), "{message}");
    }

    #[test]
    fn what_is_not_said_has_a_default() {
        let settings = parse("postgres://relay@db");
        assert_eq!(settings.host, Host::Tcp("db".to_owned()));
        assert_eq!((settings.port, &*settings.dbname), (5432, "relay"));
        assert_eq!(settings.connect_timeout, Duration::from_secs(10));
        assert_eq!(settings.ssl_mode, SslMode::Prefer);
        assert_eq!(settings.to_string(), "db:5432/relay");
    }

    #[test]
    fn both_forms_mean_the_same() {
        assert_eq!(
            parse("postgres://relay:a%20b@[::1]:5433/shop?sslmode=verify-full&connect_timeout=3"),
            parse(
                "host=::1 port=5433 user=relay password='a b' dbname=shop sslmode=verify-full connect_timeout=3"
            ),
        );
    }

    #[test]
    fn a_unix_socket_has_no_tls() {
        let settings = parse("postgres:///shop?host=/run/pg&user=relay&port=5433&sslmode=require");
        assert_eq!(settings.ssl_mode, SslMode::Disable);
        assert_eq!(settings.socket_path(), Some("/run/pg/.s.PGSQL.5433".into()));
    }

    #[test]
    fn the_separate_password_wins() {
        let password = Secret::new("other");
        let settings = Settings::parse("postgres://u:own@h/d", Some(&password)).unwrap();
        assert_eq!(settings.password, Some(password));
    }

    #[test]
    fn a_root_file_makes_require_verify_as_in_libpq() {
        let mode = |rest: &str| parse(&format!("host=h user=u {rest}")).ssl_mode;
        assert_eq!(mode("sslmode=require sslrootcert=/ca.pem"), SslMode::VerifyCa);
        assert_eq!(mode("sslmode=require"), SslMode::Require);
        assert_eq!(mode("sslrootcert=system"), SslMode::VerifyFull);
        is_refused(
            "host=h user=u sslmode=require sslrootcert=system",
            "needs `sslmode=verify-full`",
        );
    }

    #[test]
    fn wrong_strings_name_the_key_and_never_the_password() {
        is_refused("postgres://u:hush@h/d?ssl_mode=require", "did you mean `sslmode`?");
        is_refused(
            "postgres://u:hush@h/d?target_session_attrs=read-write",
            "`target_session_attrs`",
        );
        is_refused("postgres://u:hush@h/d?sslmode=maybe", "`sslmode` is none of");
        is_refused("postgres://u:hush@h:70000/d", "`port` is not a number");
        is_refused("postgres://u:hush@a,b/d", "several values of `host`");
        is_refused("postgres://u:hush@a:1,b:2/d", "several values of `host`");
        is_refused("postgres://u:hu/sh@h/d", "`@`");
        is_refused("postgres://u:hush/d", "`port` is not a number");
        is_refused("postgres://u:12?HUSH=1", "unknown key");
        is_refused("postgres://:hush@h/d", "no `user`");
        is_refused("user=u password=hush", "no `host`");
        is_refused("user=u password=my hush", "no `=`");
    }
}
