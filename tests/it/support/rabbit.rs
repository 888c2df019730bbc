//! A virtual host of a test's own on RabbitMQ, with a user who may publish there and nothing else.

use serde_json::{Value, json};
use uuid::Uuid;

use super::rabbit_node::{RabbitNode, url};
use super::services::RabbitVersion;

/// The password of every test's user.
const PASSWORD: &str = "relay";

/// The exchange of the cases' layout.
pub(crate) const EXCHANGE: &str = "events";

/// The aggregate types that a workload has by default, and so the queues of the cases' layout.
const QUEUES: [&str; 3] = ["order", "payment", "shipment"];

/// What a queue is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueKind {
    Classic,
    Quorum,
    Stream,
}

impl QueueKind {
    fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Quorum => "quorum",
            Self::Stream => "stream",
        }
    }
}

/// A fresh virtual host; deleted at the end with its user, unless its node is private and goes as a
/// whole.
pub(crate) struct Rabbit {
    node: RabbitNode,
    /// Name of the virtual host and of the user.
    name: String,
}

impl Rabbit {
    /// On the shared broker.
    pub(crate) fn create(version: RabbitVersion, hint: &str) -> Self {
        Self::create_on(&version.node(), hint)
    }

    /// On a private one.
    pub(crate) fn create_on(node: &RabbitNode, hint: &str) -> Self {
        let name = format!("it.{hint}.{}", &Uuid::new_v4().simple().to_string()[..8]);
        let this = Self { node: node.clone(), name };
        let api = node.management;
        api.put(&["vhosts", &this.name], &json!({}));
        api.put(&["users", &this.name], &json!({"password": PASSWORD, "tags": ""}));
        api.put(
            &["permissions", &this.name, "guest"],
            &json!({"configure": ".*", "write": ".*", "read": ".*"}),
        );
        this.allow_writing(".*");
        this
    }

    pub(crate) fn node(&self) -> &RabbitNode {
        &self.node
    }

    /// The virtual host, which is also the relay's user.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The relay's way in.
    pub(crate) fn relay_url(&self) -> String {
        self.relay_url_through(self.node.port)
    }

    /// The relay's way in by a proxy on this port.
    pub(crate) fn relay_url_through(&self, port: u16) -> String {
        url(port, &self.name, PASSWORD, &self.name)
    }

    /// The administrator's way in.
    pub(crate) fn admin_url(&self) -> String {
        self.node.url("guest", "guest", &self.name)
    }

    /// Lets the relay publish to the exchanges whose names match a regular expression.
    pub(crate) fn allow_writing(&self, exchanges: &str) {
        self.node.management.put(
            &["permissions", &self.name, &self.name],
            &json!({"configure": "", "write": exchanges, "read": ""}),
        );
    }

    /// Closes the relay's connections; this is not meant for readers.
    pub(crate) fn close_connections(&self) {
        self.node.close_connections_of(&self.name);
    }

    /// The cases' layout: the direct exchange [`EXCHANGE`], and for each aggregate type a queue of
    /// its name and routing key.
    pub(crate) fn create_layout(&self, kind: QueueKind) {
        self.create_layout_of([kind; 3]);
    }

    /// The same with a classic queue for orders, a quorum queue for payments, and a stream for
    /// shipments.
    pub(crate) fn create_mixed_layout(&self) {
        self.create_layout_of([QueueKind::Classic, QueueKind::Quorum, QueueKind::Stream]);
    }

    fn create_layout_of(&self, kinds: [QueueKind; 3]) {
        self.create_exchange(EXCHANGE, "direct", json!({}));
        for (queue, kind) in QUEUES.into_iter().zip(kinds) {
            self.create_queue(queue, kind, json!({}));
            self.bind(EXCHANGE, queue, queue);
        }
    }

    /// Queues of [`Rabbit::create_layout`].
    pub(crate) fn layout() -> &'static [&'static str] {
        &QUEUES
    }

    /// Declares a durable exchange with arguments such as `{"alternate-exchange": "lost"}`.
    pub(crate) fn create_exchange(&self, name: &str, kind: &str, arguments: Value) {
        let body = json!({"type": kind, "durable": true, "arguments": arguments});
        self.node.management.put(&["exchanges", &self.name, name], &body);
    }

    /// Declares a durable queue with arguments such as `{"x-max-length": 10}`.
    pub(crate) fn create_queue(&self, name: &str, kind: QueueKind, mut arguments: Value) {
        arguments["x-queue-type"] = kind.name().into();
        let body = json!({"durable": true, "arguments": arguments});
        self.node.management.put(&["queues", &self.name, name], &body);
    }

    /// Leads a routing key of an exchange to a queue.
    pub(crate) fn bind(&self, exchange: &str, queue: &str, routing_key: &str) {
        self.node.management.post(
            &["bindings", &self.name, "e", exchange, "q", queue],
            &json!({"routing_key": routing_key}),
        );
    }

    /// Takes back what [`Rabbit::bind`] did.
    #[cfg(feature = "sabotage")]
    pub(crate) fn unbind(&self, exchange: &str, queue: &str, routing_key: &str) {
        // The API names a binding without arguments by its routing key.
        let path = ["bindings", &self.name, "e", exchange, "q", queue, routing_key];
        self.node.management.delete(&path);
    }

    /// Sets a policy for queues whose names match, such as `{"max-length": 10}`; another of the same
    /// name replaces it.
    pub(crate) fn set_policy(&self, name: &str, queues: &str, definition: Value) {
        let body = json!({"pattern": queues, "apply-to": "queues", "definition": definition});
        self.node.management.put(&["policies", &self.name, name], &body);
    }

    pub(crate) fn delete_policy(&self, name: &str) {
        self.node.management.delete(&["policies", &self.name, name]);
    }

    /// Number of messages that are in a queue this moment; takes most of a second.
    pub(crate) fn depth(&self, queue: &str) -> usize {
        let list = ["list_queues", "-p", &self.name, "--no-table-headers", "name", "messages"];
        let printed = tokio::task::block_in_place(|| self.node.ctl(&list));
        let line = printed.lines().find_map(|line| line.strip_prefix(queue)?.strip_prefix('\t'));
        line.unwrap_or_else(|| panic!("no queue {queue}: {printed}")).trim().parse().unwrap()
    }

    /// Whether a queue, which must be there, is a stream.
    pub(crate) fn is_stream(&self, queue: &str) -> bool {
        let queue = self.node.management.get(&["queues", &self.name, queue]).expect("a queue");
        queue["type"] == QueueKind::Stream.name()
    }

    /// What is in the queues, for whoever reads why a test failed.
    fn show_queues(&self) {
        // A test that hurts its broker must not abort all others by a panic within a panic.
        let Some(queues) = self.node.management.try_get(&["queues", &self.name]) else { return };
        for queue in queues.as_array().into_iter().flatten() {
            let shown = ["name", "type", "state", "messages_ready", "messages_unacknowledged"]
                .map(|field| format!("{field}={}", queue[field]));
            eprintln!("queue: {}", shown.join(" "));
        }
    }

    pub(crate) fn delete_exchange(&self, name: &str) {
        self.node.management.delete(&["exchanges", &self.name, name]);
    }
}

impl Drop for Rabbit {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.show_queues();
        }
        if !self.node.is_private {
            self.node.management.delete(&["vhosts", &self.name]);
            self.node.management.delete(&["users", &self.name]);
        }
    }
}
