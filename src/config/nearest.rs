//! The known name that a mistyped one was meant to be.

/// The candidate most like `name`, unless none is like it.
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let name = simplified(name);
    let score = |candidate: &'a str| (similarity(&name, &simplified(candidate)), candidate);
    let alike =
        candidates.into_iter().map(score).filter_map(|(s, candidate)| Some((s?, candidate)));
    alike.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, candidate)| candidate)
}

/// The end of a message about an unknown name.
pub(crate) fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| format!(", did you mean `{nearest}`?"))
}

/// Case and separators are what people mistake most: `windowBytes`, `order-by`.
fn simplified(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// From 0 to 1; `None` for names that only happen to share some letters (`aggregate_id` is not what
/// `aggregate_type` was meant to be).
fn similarity(a: &str, b: &str) -> Option<f64> {
    let extends = a.len().min(b.len()) >= 3 && (a.starts_with(b) || b.starts_with(a));
    let mistyped = strsim::normalized_damerau_levenshtein(a, b) >= 0.7;
    (extends || mistyped).then(|| strsim::jaro_winkler(a, b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_alike_name_wins() {
        let known = ["slot", "publication", "tables", "max_event_size"];
        assert_eq!(nearest("slotname", known), Some("slot"));
        assert_eq!(nearest("table", known), Some("tables"));
        assert_eq!(nearest("maxEventSize", known), Some("max_event_size"));
        assert_eq!(nearest("pubication", known), Some("publication"));
    }

    #[test]
    fn a_name_like_none_has_no_nearest() {
        assert_eq!(nearest("xyz", ["slot", "publication"]), None);
        assert_eq!(nearest("", ["slot"]), None);
        assert_eq!(nearest("aggregate_type", ["aggregate_id"]), None);
    }
}
