//! A certificate authority of the test's own, and what it vouches for.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use tempfile::TempDir;

use super::process::{give_away, server_directory};

/// Files of an authority and of one server's certificate; they go with this.
pub(crate) struct Certificates {
    dir: TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Certificates {
    /// An authority, and a certificate of it for one host name.
    pub(crate) fn new(authority: &str, host: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, authority);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();

        let this = Self { dir: server_directory(), authority };
        this.write("ca.pem", &this.authority.pem());
        this.sign("server", CertificateParams::new([host.to_owned()]).unwrap());
        this
    }

    /// The files of a certificate for a client of this common name, and of its key.
    pub(crate) fn client(&self, name: &str) -> (PathBuf, PathBuf) {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
        self.sign("client", params);
        (self.path("client.pem"), self.path("client.key"))
    }

    /// The authority's certificate.
    pub(crate) fn authority(&self) -> PathBuf {
        self.path("ca.pem")
    }

    /// The server's certificate.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.path("server.pem")
    }

    /// The server's key and certificate in one file, as a JVM wants them.
    pub(crate) fn identity(&self) -> PathBuf {
        let text = |path: PathBuf| fs::read_to_string(path).unwrap();
        self.write("both.key", &(text(self.key()) + &text(self.certificate())));
        self.path("both.key")
    }

    /// The server's key; nobody but the server's account may read it, and root.
    pub(crate) fn key(&self) -> PathBuf {
        self.path("server.key")
    }

    fn sign(&self, name: &str, params: CertificateParams) {
        let key = KeyPair::generate().unwrap();
        let leaf = params.signed_by(&key, &self.authority).unwrap();
        self.write(&format!("{name}.pem"), &leaf.pem());
        self.write(&format!("{name}.key"), &key.serialize_pem());
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        let mode = if name.ends_with(".key") { 0o600 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        give_away(&path);
    }
}
