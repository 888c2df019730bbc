//! `tls`, wherever it stands: files in PEM form.

use std::path::PathBuf;

use super::field::Field;
use super::{ConfigError, TlsFiles};

pub(super) fn tls(field: &Field<'_>) -> Result<TlsFiles, ConfigError> {
    let fields = field.fields(&["ca_file", "cert_file", "key_file"])?;
    let ca_file = fields.read("ca_file", path)?;
    let identity = match (fields.read("cert_file", path)?, fields.read("key_file", path)?) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => return Err(field.invalid("needs `cert_file` and `key_file`, or neither")),
    };
    Ok(TlsFiles { ca_file, identity })
}

/// As with `${file:…}`, a relative path stands beside the configuration file.
fn path(field: &Field<'_>) -> Result<PathBuf, ConfigError> {
    Ok(field.expander.base.join(field.filled_text()?))
}
