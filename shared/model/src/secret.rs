//! Values that nobody is to see.

use std::fmt;

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
}
