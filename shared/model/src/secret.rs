//! Values that nobody is to see.

use std::fmt;

/// Bytes of what is part of ordinary words.
const SHORT: usize = 3;

/// A secret's bytes. Whatever shows it shows that there is one, and it is written to nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// A secret of these bytes.
    #[must_use]
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes, for what the secret is for.
    #[must_use]
    pub const fn reveal(&self) -> &[u8] {
        &self.0
    }

    /// Somebody else's words without it, where they repeat it as it is or as JSON and URLs write it. Nothing so short that it is part of
    /// ordinary words is taken for it: three bytes or less.
    #[must_use]
    pub fn struck_from(&self, words: &str) -> String {
        let Ok(secret) = std::str::from_utf8(&self.0) else { return words.to_owned() };
        let encode = |keep: &dyn Fn(u8) -> bool| -> String {
            let byte = |byte: u8| match keep(byte) {
                true => char::from(byte).to_string(),
                false => format!("%{byte:02X}"),
            };
            secret.bytes().map(byte).collect()
        };
        let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let forms = [
            secret.to_owned(),
            secret.trim().to_owned(),
            secret.escape_default().to_string(),
            secret.replace('\\', "\\\\").replace('"', "\\\""),
            encode(&unreserved),
            encode(&|byte| byte.is_ascii_alphanumeric()),
        ];
        forms.iter().filter(|form| form.len() > SHORT).fold(words.to_owned(), |words, form| words.replace(form, "…"))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        let secret = Secret::new(*b"hunter2");
        assert_eq!((format!("{secret:?}"), secret.reveal()), ("Secret(…)".to_owned(), &b"hunter2"[..]));
    }

    #[test]
    fn who_repeats_a_secret_is_not_repeated() {
        let secret = Secret::new(*b"hun\"ter/2");
        for said in ["hun\"ter/2", "hun\\\"ter/2", "hun%22ter%2F2"] {
            assert_eq!(secret.struck_from(&format!("no: {said}, and {said}")), "no: …, and …");
        }
        assert_eq!(Secret::new(*b"hunter2\n").struck_from("Bearer hunter2 is none"), "Bearer … is none");
        for short in ["", "a", "not"] {
            assert_eq!(Secret::new(short.as_bytes()).struck_from("not a word of it"), "not a word of it");
        }
    }
}
