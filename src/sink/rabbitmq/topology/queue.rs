//! A queue, and how it may lose what it was given.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

/// A queue as the management API shows it.
#[derive(Clone, Debug, Deserialize)]
pub struct Queue {
    /// Its name.
    pub name: String,
    durable: bool,
    #[serde(default)]
    auto_delete: bool,
    #[serde(default)]
    exclusive: bool,
    /// `classic`, `quorum`, `stream`.
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    arguments: Value,
    /// What policies add to the arguments; an empty list where there are none.
    #[serde(default)]
    effective_policy_definition: Value,
}

/// A way in which a queue loses messages that it has confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It is gone after a restart of the broker.
    NotDurable,
    /// It goes with its last consumer, or with the connection that declared it.
    Leaves,
    /// It is deleted when nobody uses it for a while.
    Expires,
    /// It drops its oldest message when it is full.
    DropsHead,
    /// Its messages end after a time, and go nowhere.
    MessagesEnd,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotDurable => "is not durable: a restart of the broker loses it",
            Self::Leaves => "is deleted with its last consumer or its connection",
            Self::Expires => "is deleted when nobody uses it for a while (`x-expires`)",
            Self::DropsHead => {
                "drops its oldest message when it is full (`x-overflow` is `drop-head`, the default)"
            }
            Self::MessagesEnd => {
                "drops messages after a while (`x-message-ttl`), and has no dead letter exchange"
            }
        })
    }
}

impl Loss {
    /// What mends it.
    pub const fn way_out(&self) -> &'static str {
        match self {
            Self::NotDurable | Self::Leaves => {
                "declare it durable, neither exclusive nor with auto-delete"
            }
            Self::Expires => {
                "declare it without `x-expires`, and clear the policy that sets `expires`"
            }
            Self::DropsHead => {
                "declare it with `x-overflow: reject-publish`, or set `overflow` by a policy"
            }
            Self::MessagesEnd => "give it an `x-dead-letter-exchange`, or no `x-message-ttl`",
        }
    }
}

impl Queue {
    /// How it may lose what it has confirmed. A stream's retention is what it is for, and left out.
    pub fn losses(&self) -> Vec<Loss> {
        let mut losses = Vec::new();
        if !self.durable {
            losses.push(Loss::NotDurable);
        }
        if self.auto_delete || self.exclusive {
            losses.push(Loss::Leaves);
        }
        if self.has("expires") {
            losses.push(Loss::Expires);
        }
        if self.kind == "stream" {
            return losses;
        }
        let is_bounded = self.has("max-length") || self.has("max-length-bytes");
        // Without a word about it, a full queue drops its head.
        let drops = self.setting("overflow").and_then(Value::as_str).unwrap_or("drop-head");
        if is_bounded && drops == "drop-head" {
            losses.push(Loss::DropsHead);
        }
        if self.has("message-ttl") && !self.has("dead-letter-exchange") {
            losses.push(Loss::MessagesEnd);
        }
        losses
    }

    fn has(&self, key: &str) -> bool {
        self.setting(key).is_some()
    }

    /// The queue's argument `x-key`, or a policy's `key`. Where both are there, the smaller number
    /// counts; for us, that there is one.
    fn setting(&self, key: &str) -> Option<&Value> {
        let argument = self.arguments.get(format!("x-{key}"));
        argument.or_else(|| self.effective_policy_definition.get(key))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn losses(queue: Value) -> Vec<Loss> {
        serde_json::from_value::<Queue>(queue).unwrap().losses()
    }

    fn with(arguments: &Value, policy: &Value) -> Vec<Loss> {
        losses(json!({
            "name": "q", "durable": true, "auto_delete": false, "exclusive": false,
            "type": "classic", "arguments": arguments, "effective_policy_definition": policy,
        }))
    }

    #[test]
    fn a_plain_durable_queue_loses_nothing() {
        assert_eq!(with(&json!({}), &json!({})), []);
        assert_eq!(with(&json!([]), &json!([])), [], "as older brokers write an empty map");
        assert_eq!(losses(json!({"name": "q", "durable": true})), []);
    }

    #[test]
    fn a_bound_without_a_word_about_overflow_drops() {
        let drops = [Loss::DropsHead];
        assert_eq!(with(&json!({"x-max-length": 5}), &json!({})), drops);
        assert_eq!(with(&json!({}), &json!({"max-length-bytes": 5})), drops);
        let rejects = json!({"x-max-length": 5, "x-overflow": "reject-publish"});
        assert_eq!(with(&rejects, &json!({})), []);
        let by_policy = json!({"overflow": "reject-publish-dlx"});
        assert_eq!(with(&json!({"x-max-length": 5}), &by_policy), []);
        assert_eq!(with(&json!({"x-overflow": "drop-head"}), &json!({})), [], "never full");
    }

    #[test]
    fn messages_that_end_must_go_somewhere() {
        assert_eq!(with(&json!({"x-message-ttl": 5}), &json!({})), [Loss::MessagesEnd]);
        let dead_letter = json!({"dead-letter-exchange": "dlx"});
        assert_eq!(with(&json!({"x-message-ttl": 5}), &dead_letter), []);
    }

    #[test]
    fn a_queue_that_leaves_takes_its_messages_along() {
        let queue = json!({
            "name": "q", "durable": false, "exclusive": true, "arguments": {"x-expires": 1},
        });
        assert_eq!(losses(queue), [Loss::NotDurable, Loss::Leaves, Loss::Expires]);
    }

    #[test]
    fn a_streams_retention_is_no_loss() {
        let stream = json!({
            "name": "q", "durable": true, "type": "stream", "arguments": {"x-max-length-bytes": 5},
        });
        assert_eq!(losses(stream), []);
    }
}
