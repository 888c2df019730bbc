//! TLS to a broker or an HTTP server: whom to trust and who we are, from files that are read at each connection.

use std::error::Error as StdError;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{AlertDescription, CertificateError, ClientConfig, Error, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::config::TlsFiles;
use crate::failure::Failure;

/// Shakes hands over `socket` with `peer`, a name for messages; `host` must be in its certificate.
///
/// # Errors
///
/// Fixable: a file that cannot be read, a certificate that is not believed.
pub(crate) async fn connect(
    files: &TlsFiles,
    peer: &str,
    host: &str,
    socket: TcpStream,
) -> Result<TlsStream<TcpStream>, Failure> {
    let config = client_config(files)?;
    let name = ServerName::try_from(host.to_owned()).map_err(|error| {
        Failure::fixable(format!("`{host}` cannot be in a certificate")).cause(error)
    })?;
    TlsConnector::from(Arc::new(config)).connect(name, socket).await.map_err(|error| {
        let message = format!("no TLS with {peer} at `{host}`");
        refusal(&error, message.clone())
            .unwrap_or_else(|| Failure::transient(message).code("TLS").cause(error))
    })
}

/// A failure that says `message`, if TLS is what `error` is about.
pub(crate) fn refusal(error: &(dyn StdError + 'static), message: String) -> Option<Failure> {
    let error = rustls_error(error)?;
    let failure = Failure::fixable(message).code("TLS").cause(error.clone());
    Some(match hint(error) {
        Some(hint) => failure.hint(hint),
        None => failure,
    })
}

fn hint(error: &Error) -> Option<&'static str> {
    match error {
        Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => Some("name the certificate's authority: `tls: {ca_file: /path/to/ca.pem}`"),
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => Some("connect by a name that is in the server's certificate"),
        Error::InvalidMessage(_) => Some("is that port one for TLS? AMQP's is 5671"),
        Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::HandshakeFailure
            | AlertDescription::BadCertificate
            | AlertDescription::UnknownCA
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown,
        ) => Some(
            "the server wants a client certificate that it trusts: `tls: {cert_file: …, key_file: \
             …}`",
        ),
        _ => None,
    }
}

/// rustls' own error in the chain of `error`; an [`io::Error`] may carry it inside.
pub(crate) fn rustls_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<Error>() {
            return Some(found);
        }
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match inner {
            Some(inner) => Some(inner as &(dyn StdError + 'static)),
            None => error.source(),
        };
    }
    None
}

fn client_config(files: &TlsFiles) -> Result<ClientConfig, Failure> {
    let roots = match &files.ca_file {
        Some(path) => file_roots(path)?,
        None => system_roots("tls.ca_file")?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Failure::definite("TLS cannot be set up").cause(error))?
        .with_root_certificates(roots);
    let Some((certificate, key)) = &files.identity else {
        return Ok(builder.with_no_client_auth());
    };
    let (chain, private) = (certificates("cert_file", certificate)?, private_key(key)?);
    builder.with_client_auth_cert(chain, private).map_err(|error| {
        unusable("cert_file", certificate)
            .hint("does the key in `key_file` belong to it?")
            .cause(error)
    })
}

/// Whom the system trusts; `setting` is what names others instead.
///
/// # Errors
///
/// Fixable: it trusts nobody.
pub(crate) fn system_roots(setting: &str) -> Result<RootCertStore, Failure> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if !roots.is_empty() {
        return Ok(roots);
    }
    let hint = format!("install the package `ca-certificates`, or name a file with `{setting}`");
    let failure = Failure::fixable("the system has no root certificates").hint(hint);
    Err(match found.errors.into_iter().next() {
        Some(error) => failure.cause(error),
        None => failure,
    })
}

fn file_roots(path: &Path) -> Result<RootCertStore, Failure> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("ca_file", path)? {
        roots.add(certificate).map_err(|error| unusable("ca_file", path).cause(error))?;
    }
    Ok(roots)
}

fn certificates(name: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let certificates: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unusable(name, path).cause(error))?;
    if certificates.is_empty() {
        return Err(unusable(name, path).hint("it holds no PEM certificate"));
    }
    Ok(certificates)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, Failure> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| {
        unusable("key_file", path).hint("it must hold an unencrypted PEM key").cause(error)
    })
}

fn unusable(name: &str, path: &Path) -> Failure {
    Failure::fixable(format!("`tls.{name}` {} cannot be used", path.display())).code("TLS")
}
