//! Binding keys of topic exchanges (RabbitMQ's "Topic exchange"): words between dots, `*` for one
//! word, `#` for any number of them.

/// Whether a message with `routing_key` goes by a binding with `pattern`.
pub(super) fn matches(pattern: &str, routing_key: &str) -> bool {
    let (pattern, words) = (words(pattern), words(routing_key));
    let (mut at, mut word) = (0, 0);
    // Where to go on if what follows the last `#` does not fit: it takes a word more.
    let mut retry = None;
    loop {
        match (pattern.get(at), words.get(word)) {
            (None, None) => return true,
            (Some(&"#"), _) => {
                at += 1;
                retry = Some((at, word));
                continue;
            }
            (Some(expected), Some(found)) if *expected == "*" || expected == found => {
                at += 1;
                word += 1;
                continue;
            }
            _ => {}
        }
        match retry {
            Some((after, taken)) if taken < words.len() => {
                retry = Some((after, taken + 1));
                (at, word) = (after, taken + 1);
            }
            _ => return false,
        }
    }
}

/// The empty key has no word at all.
fn words(key: &str) -> Vec<&str> {
    if key.is_empty() { Vec::new() } else { key.split('.').collect() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_and_wildcards() {
        for (pattern, key, expected) in [
            ("a.b", "a.b", true),
            ("a.b", "a.c", false),
            ("a.b", "a", false),
            ("a.*", "a.b", true),
            ("a.*", "a", false),
            ("a.*", "a.b.c", false),
            ("*.*", "a.", true),
            ("#", "", true),
            ("#", "a.b.c", true),
            ("*", "", false),
            ("", "", true),
            ("", "a", false),
            ("a.#", "a", true),
            ("a.#", "ab", false),
            ("#.z", "z", true),
            ("#.z", "a.z.z", true),
            ("#.z", "a.z.b", false),
            ("a.#.z", "a.b.c.z", true),
            ("#.b.*", "a.b.b.c", true),
            ("#.#", "", true),
            ("#.*", "", false),
            ("A", "a", false),
        ] {
            assert_eq!(matches(pattern, key), expected, "`{pattern}` and `{key}`");
        }
    }

    #[test]
    fn many_wildcards_take_no_time() {
        let pattern = "#.a.".repeat(60) + "b";
        assert!(!matches(&pattern, &"a.".repeat(120)));
    }

    /// The rule as the manual has it, tried in every way.
    fn slowly(pattern: &[&str], words: &[&str]) -> bool {
        match (pattern.split_first(), words.split_first()) {
            (None, None) => true,
            (Some((&"#", rest)), _) => (0..=words.len()).any(|taken| slowly(rest, &words[taken..])),
            (Some((first, rest)), Some((word, words))) => {
                (*first == "*" || first == word) && slowly(rest, words)
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn it_is_the_rule_tried_in_every_way(
            pattern in prop::collection::vec(prop::sample::select(vec!["a", "b", "*", "#"]), 0..6),
            key in prop::collection::vec(prop::sample::select(vec!["a", "b"]), 0..7),
        ) {
            let expected = slowly(&pattern, &key);
            prop_assert_eq!(matches(&pattern.join("."), &key.join(".")), expected);
        }
    }
}
