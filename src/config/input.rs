//! Files beside the configuration file that a relay reads: secrets that went into the
//! configuration, and certificates that connections read.
//!
//! They are rotated by others (a secret store, Kubernetes), who tell nobody. So it is remembered what
//! was in them.

use std::cell::RefCell;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};

use super::{Config, SinkConfig};

/// One file, and what was in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputFile {
    path: PathBuf,
    digest: u64,
}

impl InputFile {
    fn new(path: PathBuf, content: &[u8]) -> Self {
        Self { path, digest: digest(content) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether something else is in it now. A file that cannot be read is being replaced, or will be
    /// named by who needs it.
    pub fn has_changed(&self) -> bool {
        std::fs::read(&self.path).is_ok_and(|content| digest(&content) != self.digest)
    }
}

fn digest(content: &[u8]) -> u64 {
    foldhash::quality::FixedState::default().hash_one(content)
}

/// Those that were read while a configuration was.
#[derive(Debug, Default)]
pub(super) struct Inputs(RefCell<Vec<InputFile>>);

impl Inputs {
    pub(super) fn add(&self, path: PathBuf, content: &[u8]) {
        self.0.borrow_mut().push(InputFile::new(path, content));
    }

    /// With those that connections of `config` read by themselves.
    pub(super) fn with_certificates(self, config: &Config) -> Vec<InputFile> {
        let mut inputs = self.0.into_inner();
        for path in config.sinks.iter().flat_map(|(_, sink)| certificates(sink)) {
            // Where it cannot be read, the connection will say so.
            if let Ok(content) = std::fs::read(&path) {
                inputs.push(InputFile::new(path, &content));
            }
        }
        inputs
    }
}

fn certificates(sink: &SinkConfig) -> Vec<PathBuf> {
    match sink {
        SinkConfig::RabbitMq(rabbitmq) => {
            let identity = rabbitmq.tls.identity.clone();
            let identity = identity.into_iter().flat_map(|(certificate, key)| [certificate, key]);
            rabbitmq.tls.ca_file.clone().into_iter().chain(identity).collect()
        }
        // librdkafka's names: `ssl.ca.location`, `ssl.certificate.location`, `ssl.key.location`, ….
        SinkConfig::Kafka(kafka) => {
            let files = kafka.properties.iter().filter(|(name, _)| name.ends_with(".location"));
            files.map(|(_, path)| PathBuf::from(path.expose())).collect()
        }
        SinkConfig::Stdout | SinkConfig::Null => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_certificates_are_known_with_what_was_in_them() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("password", "old\n");
        write("ca.pem", "ca");
        let text = "
source: {postgres: {url: x, slot: s, password: '${file:password}'}}
sinks: {tasks: {rabbitmq: {url: 'amqps://r', tls: {ca_file: ca.pem}}}}
routes: [{sink: tasks}]
";
        let file = folder.path().join("relay.yaml");
        let config = Config::parse(text, Some(file), &|_| None).unwrap();
        let names = |file: &InputFile| file.path().file_name().unwrap().to_owned();
        let known: Vec<_> = config.inputs.iter().map(names).collect();
        assert_eq!(known, ["password", "ca.pem"]);
        assert!(!config.inputs.iter().any(InputFile::has_changed));
        write("password", "new\n");
        assert!(config.inputs[0].has_changed() && !config.inputs[1].has_changed());
        std::fs::remove_file(folder.path().join("password")).unwrap();
        assert!(!config.inputs[0].has_changed());
    }
}
