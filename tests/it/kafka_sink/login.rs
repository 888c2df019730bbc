//! Coming in by TLS and by a password over it, and who is not let in.

use pgoutbox::config::KafkaConfig;
use pgoutbox::failure::{Class, Failure};

use super::broker::Broker;
use super::relay::{Relay, event};
use crate::support::{Certificates, KafkaListener};

/// One broker, since a JVM takes its time.
#[tokio::test(flavor = "multi_thread")]
async fn tls_and_scram_let_in_whom_they_should() {
    let certificates = Certificates::new("pgoutbox tests", "127.0.0.1");
    let broker = Broker::with_tls(&certificates).await;
    let path = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
    let authority = path(certificates.authority());
    let (certificate, key) = certificates.client("relay");
    let (certificate, key) = (path(certificate), path(key));
    let tls = [("security.protocol", "ssl"), ("ssl.ca.location", &authority)];
    let identity = [("ssl.certificate.location", &*certificate), ("ssl.key.location", &*key)];
    let scram = |password| {
        [
            ("security.protocol", "sasl_ssl"),
            ("ssl.ca.location", &*authority),
            ("sasl.mechanism", "SCRAM-SHA-512"),
            ("sasl.username", "relay"),
            ("sasl.password", password),
        ]
    };

    for (listener, properties) in [
        (KafkaListener::Tls, tls.to_vec()),
        (KafkaListener::Mutual, [tls, identity].concat()),
        (KafkaListener::Scram, scram("secret").to_vec()),
    ] {
        delivers(&broker, &broker.config_of(listener, &properties)).await;
    }

    let unknown = [("security.protocol", "ssl")];
    refuses(&broker.config_of(KafkaListener::Tls, &unknown), "_SSL", "ssl.ca.location").await;
    let anonymous = broker.config_of(KafkaListener::Mutual, &tls);
    refuses(&anonymous, "_TRANSPORT", "ssl.certificate.location").await;
    let wrong = broker.config_of(KafkaListener::Scram, &scram("wrong"));
    refuses(&wrong, "_AUTHENTICATION", "sasl.password").await;
    // The certificate is for an address.
    let mut address = broker.config_of(KafkaListener::Tls, &tls);
    address.brokers = vec![address.brokers[0].replace("127.0.0.1", "localhost")];
    refuses(&address, "_SSL", "localhost").await;

    // A broker that restarts looks the same: it is waited for.
    let failure = refusal(&broker.config_of(KafkaListener::Plain, &tls)).await;
    is_about_the_port(&failure);
    is_about_the_port(&refusal(&broker.config_of(KafkaListener::Tls, &[])).await);
}

fn is_about_the_port(failure: &Failure) {
    assert_eq!(failure.class(), Class::Transient, "{failure}");
    let way_out = failure.way_out();
    assert!(way_out.is_some_and(|it| it.contains("security.protocol")), "{failure}: {way_out:?}");
}

async fn delivers(broker: &Broker, config: &KafkaConfig) {
    let topic = broker.create(1, &[]).await;
    let mut relay = Relay::with(config, &[&topic]).await.expect("the sink starts");
    relay.push((0..10u8).map(|number| event(&topic, "k", vec![number])));
    relay.run_to_end().await;
    assert_eq!(broker.read(&topic).len(), 10);
    relay.stop().await;
}

/// Refused at the start, by a failure of this code that has the word in its text or way out.
async fn refuses(config: &KafkaConfig, code: &str, word: &str) {
    let failure = refusal(config).await;
    let text = format!("{failure}; {}", failure.way_out().unwrap_or(""));
    assert_eq!((failure.class(), failure.peer_code()), (Class::Fixable, Some(code)), "{text}");
    assert!(text.contains(word), "{text}");
    assert!(!text.contains("wrong"), "{text}");
}

async fn refusal(config: &KafkaConfig) -> Failure {
    Relay::with(config, &[]).await.err().expect("must fail")
}
