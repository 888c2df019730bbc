//! TLS to PostgreSQL with libpq's meaning of `sslmode`.

use std::error::Error as StdError;
use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use crate::failure::Failure;
use crate::tls::{rustls_error, system_roots};

use super::settings::{Settings, SslMode, SslRootCert};

/// What a TLS client of `settings` trusts; reads the root file afresh.
///
/// # Errors
///
/// A fixable [`Failure`] where the roots cannot be read.
pub fn client_config(settings: &Settings) -> Result<Arc<ClientConfig>, Failure> {
    let provider = Arc::new(ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match settings.ssl_mode {
        SslMode::Disable | SslMode::Prefer | SslMode::Require => {
            Arc::new(Unverified { provider: Arc::clone(&provider) })
        }
        SslMode::VerifyCa => {
            Arc::new(AnyName { chain: chain_verifier(&settings.ssl_root_cert, &provider)? })
        }
        SslMode::VerifyFull => chain_verifier(&settings.ssl_root_cert, &provider)?,
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Failure::definite("TLS cannot be set up").cause(error))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// What to do about a failed handshake, where the bare error does not say it.
///
/// Looks for rustls' error anywhere in `error`'s chain.
pub fn hint(error: &(dyn StdError + 'static)) -> Option<&'static str> {
    match rustls_error(error)? {
        // An authority that was renewed under its old name gives a bad signature.
        Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => Some("name the certificate's authority: `sslrootcert=/path/to/ca.pem`"),
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => Some("connect by a name in the certificate, or use `sslmode=verify-ca`"),
        // webpki has a name but no type of ours for it; only the hint hangs on the text.
        Error::InvalidCertificate(CertificateError::Other(other))
            if other.to_string() == "CaUsedAsEndEntity" =>
        {
            Some(
                "the server shows an authority's own certificate (`CA:TRUE`); give it one that is \
                 issued by that authority, or use `sslmode=require`, which does not verify",
            )
        }
        _ => None,
    }
}

fn chain_verifier(
    roots: &SslRootCert,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, Failure> {
    let roots = match roots {
        SslRootCert::System => system_roots("sslrootcert")?,
        SslRootCert::File(path) => file_roots(path)?,
    };
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| {
            Failure::fixable("the trusted root certificates cannot be used").cause(error)
        })
}

fn file_roots(path: &Path) -> Result<RootCertStore, Failure> {
    let failure = || Failure::fixable(format!("`sslrootcert` {} cannot be used", path.display()));
    let mut roots = RootCertStore::empty();
    for certificate in
        CertificateDer::pem_file_iter(path).map_err(|error| failure().cause(error))?
    {
        let certificate = certificate.map_err(|error| failure().cause(error))?;
        roots.add(certificate).map_err(|error| failure().cause(error))?;
    }
    if roots.is_empty() {
        return Err(failure().hint("it holds no PEM certificate"));
    }
    Ok(roots)
}

/// `sslmode=require` and `prefer`: whoever answers is believed, as libpq does.
#[derive(Debug)]
struct Unverified {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// `sslmode=verify-ca`: the chain counts, the name does not.
#[derive(Debug)]
struct AnyName {
    chain: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // webpki looks at the name last, so a wrong name means that everything else was right.
        match self.chain.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        ) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}
