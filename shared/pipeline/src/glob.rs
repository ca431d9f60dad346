//! Patterns of topic names: `*` is any text, `?` any one character.

/// Whether a text is a pattern rather than a name.
#[must_use]
pub fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '[', ']', '{', '}'])
}

/// What brokers keep for themselves: no message of anybody's is in them, and to read some of them writes to them.
const BROKERS_OWN: [&str; 4] =
    ["__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"];

/// Whether a topic is the brokers' own.
#[must_use]
pub fn is_brokers_own(topic: &str) -> bool {
    BROKERS_OWN.contains(&topic)
}

/// Whether a name fits a pattern. Topics that begin with `__` fit only patterns that begin so; the brokers' own, none.
#[must_use]
pub fn fits(pattern: &str, name: &str) -> bool {
    if name.starts_with("__") && (!pattern.starts_with("__") || is_brokers_own(name)) {
        return false;
    }
    // Where the last `*` stood, and how far the name was then: what is tried again one character later.
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut read) = (0, 0);
    let mut star = None;
    while let Some(byte) = name.get(read) {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(b'?') => (at, read) = (at + 1, read + 1),
            Some(other) if other == byte => (at, read) = (at + 1, read + 1),
            _ => match star {
                Some((before, from)) => {
                    star = Some((before, from + 1));
                    (at, read) = (before + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern.get(at..).is_some_and(|rest| rest.iter().all(|byte| *byte == b'*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_people_expect() {
        for (pattern, name, want) in [
            ("cdc.public.*", "cdc.public.orders", true),
            ("cdc.public.*", "cdc.public.", true),
            ("cdc.public.*", "cdc_public_orders", false),
            ("*", "a", true),
            ("*", "__consumer_offsets", false),
            ("__*", "__consumer_offsets", false),
            ("__*", "__amazon_msk_canary", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*.heartbeat", "x.heartbeat.heartbeat", true),
            ("*.heartbeat", "x.heartbeats", false),
            ("a*b*c", "a-b-b-c-c", true),
            ("a*b*c", "a-c-b", false),
            ("orders", "orders", true),
            ("orders", "order", false),
        ] {
            assert_eq!(fits(pattern, name), want, "{pattern} {name}");
        }
        assert!(is_glob("a*") && is_glob("a[b]") && !is_glob("a.b-c_d"));
    }
}
