//! Ids and chance. A newtype per id; every random choice is drawn from an [`Ids`], so that a seed repeats it.

use std::fmt;
use std::str::FromStr;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

/// Where chance comes from: ids, file names, jitter.
pub trait Ids: fmt::Debug + Send + Sync {
    /// The next 64 random bits.
    fn next_u64(&self) -> u64;

    /// A random (version 4) UUID as 16 big-endian bytes.
    fn uuid(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.next_u64().to_be_bytes());
        bytes[8..].copy_from_slice(&self.next_u64().to_be_bytes());
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        bytes
    }

    /// A random UUID in its usual text form.
    fn uuid_text(&self) -> String {
        let b = self.uuid();
        let hex = |range: std::ops::Range<usize>| -> String { b[range].iter().map(|x| format!("{x:02x}")).collect() };
        format!("{}-{}-{}-{}-{}", hex(0..4), hex(4..6), hex(6..8), hex(8..10), hex(10..16))
    }

    /// A positive snapshot id.
    fn snapshot_id(&self) -> i64 {
        // 0 and negative ids are legal nowhere; 63 random bits leave no practical chance of a repeat.
        i64::try_from(self.next_u64() >> 1).unwrap_or(i64::MAX).max(1)
    }
}

/// The operating system's randomness: for binaries.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemIds;

impl Ids for SystemIds {
    #[expect(clippy::disallowed_methods, reason = "the one place where chance comes from outside")]
    #[expect(clippy::expect_used, reason = "without randomness ids would repeat, and two writers could take one name")]
    fn next_u64(&self) -> u64 {
        getrandom::u64().expect("the operating system gives random bytes")
    }
}

/// A repeatable sequence (splitmix64): for tests, simulation and seeded generators.
#[derive(Debug)]
pub struct SeededIds(Mutex<u64>);

impl SeededIds {
    /// The sequence of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }
}

impl Ids for SeededIds {
    fn next_u64(&self) -> u64 {
        let mut state = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Why a text is not an id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct ParseError {
    text: String,
    expected: &'static str,
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id!(
    /// A pipeline for ever: `<name>-<8 hex>`, fixed at its first apply or first embedded run.
    PipelineId
);
text_id!(
    /// One attempt at one commit. Never used twice.
    CommitId
);
text_id!(
    /// A table's UUID, as its metadata spells it.
    TableUuid
);

impl PipelineId {
    /// A new id for a pipeline name: the name and 8 random hexadecimal digits.
    #[must_use]
    pub fn new(name: &str, ids: &dyn Ids) -> Self {
        Self(format!("{name}-{:08x}", ids.next_u64() >> 32))
    }

    /// The pipeline's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.rsplit_once('-').map_or(self.0.as_str(), |(name, _)| name)
    }
}

impl FromStr for PipelineId {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let ok = text.rsplit_once('-').is_some_and(|(name, hex)| {
            !name.is_empty()
                && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_'))
                && hex.len() == 8
                && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        });
        if ok {
            Ok(Self(text.to_owned()))
        } else {
            Err(ParseError { text: text.to_owned(), expected: "a pipeline id, <name>-<8 hex>" })
        }
    }
}

impl CommitId {
    /// A fresh id for one attempt.
    #[must_use]
    pub fn new(ids: &dyn Ids) -> Self {
        Self(ids.uuid_text())
    }
}

impl TableUuid {
    /// From the text of table metadata.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_ids_and_they_have_the_right_form() {
        let (a, b) = (SeededIds::new(7), SeededIds::new(7));
        for _ in 0..100 {
            let text = a.uuid_text();
            assert_eq!(text, b.uuid_text());
            assert_eq!(text.len(), 36);
            assert_eq!(&text[14..15], "4");
            assert!(a.snapshot_id() > 0);
            assert!(b.snapshot_id() > 0);
        }
        let id = PipelineId::new("orders-eu", &a);
        assert_eq!(id.as_str().parse::<PipelineId>().unwrap(), id);
        for bad in
            ["orders", "orders-", "-12345678", "orders-1234567", "orders-1234567G", "Or-12345678", "a/b-12345678"]
        {
            assert!(bad.parse::<PipelineId>().is_err(), "{bad}");
        }
    }
}
