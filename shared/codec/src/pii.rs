//! Personal data on its way into columns: hashed under a secret, or cut to its end.

use std::fmt::Write as _;

use hmac::{Hmac, KeyInit, Mac};
use model::secret::Secret;
use sha2::Sha256;

/// HMAC-SHA-256 (RFC 2104) under one key, taken in once.
#[derive(Clone)]
pub(crate) struct Hasher(Hmac<Sha256>);

impl std::fmt::Debug for Hasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hasher(…)")
    }
}

impl Hasher {
    pub(crate) fn new(salt: &Secret) -> Self {
        #[expect(
            clippy::expect_used,
            reason = "other codes refuse keys of some lengths, and the signature is theirs too"
        )]
        Self(Hmac::new_from_slice(salt.reveal()).expect("HMAC takes keys of any length"))
    }

    /// The hash, 64 lower-case hexadecimal digits.
    pub(crate) fn hash(&self, value: &[u8]) -> String {
        let code = self.0.clone().chain_update(value).finalize().into_bytes();
        let mut text = String::with_capacity(2 * code.len());
        for byte in code {
            let _infallible = write!(text, "{byte:02x}");
        }
        text
    }
}

/// The last four characters; of a text of fewer than eight, half of them, so that none is kept whole.
pub(crate) fn last4(value: &[u8]) -> &[u8] {
    // In UTF-8 every byte but those of this form begins a character.
    let begins = |byte: &&u8| **byte & 0xc0 != 0x80;
    let characters = value.iter().filter(begins).count();
    let left_out = characters - (characters / 2).min(4);
    let start = value.iter().enumerate().filter(|(_, byte)| begins(byte)).map(|(at, _)| at).nth(left_out);
    value.get(start.unwrap_or(value.len())..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test cases 1, 2, 6 and 7 of RFC 4231.
    #[test]
    fn the_hash_is_hmac_sha_256() {
        let check = |key: &[u8], value: &[u8], expected: &str| {
            assert_eq!(Hasher::new(&Secret::new(key)).hash(value), expected);
        };
        check(&[0x0b; 20], b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
        check(
            b"Jefe",
            b"what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        );
        check(
            &[0xaa; 131],
            b"Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        );
        check(
            &[0xaa; 131],
            b"This is a test using a larger than block-size key and a larger than block-size data. The key needs to \
              be hashed before being used by the HMAC algorithm.",
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
        );
        assert_eq!(format!("{:?}", Hasher::new(&Secret::new(*b"hunter2"))), "Hasher(…)");
    }

    #[test]
    fn an_end_is_never_the_whole() {
        let check = |text: &str, expected: &str| assert_eq!(last4(text.as_bytes()), expected.as_bytes(), "{text}");
        check("4111111111111234", "1234");
        check("12345678", "5678");
        check("1234567", "567");
        check("1234", "34");
        check("a", "");
        check("", "");
        check("größe äöü", " äöü");
        check("ßß", "ß");
    }
}
