//! The names and versions of what frazil persists. Each document carries `"schema": "frazil.stored.<name>/<version>"`,
//! is described by a JSON Schema in `proto/`, and stays readable for ever.

use serde::{Deserialize, Serialize};

/// The tag of one persisted contract at the version this build writes.
pub trait Contract {
    /// `frazil.stored.<name>`.
    const NAME: &'static str;
    /// The version written.
    const VERSION: u32;
}

/// The `schema` member of a persisted document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tag(String);

/// Why a persisted document is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Written by a newer frazil: reading it half would lose something.
    #[error(
        "`{found}` was written by a newer frazil; this one reads {name} up to version {newest}: upgrade this installation"
    )]
    Newer { found: String, name: &'static str, newest: u32 },
    /// Some other document.
    #[error("`{found}` is not a {name} document")]
    Foreign { found: String, name: &'static str },
}

impl Tag {
    /// The tag this build writes for `C`.
    #[must_use]
    pub fn of<C: Contract>() -> Self {
        Self(format!("{}/{}", C::NAME, C::VERSION))
    }

    /// The version, when this is a `C` that this build can read.
    ///
    /// # Errors
    /// [`Refused::Newer`] or [`Refused::Foreign`].
    pub fn check<C: Contract>(&self) -> Result<u32, Refused> {
        let foreign = || Refused::Foreign { found: self.0.clone(), name: C::NAME };
        let (name, version) = self.0.rsplit_once('/').ok_or_else(foreign)?;
        if name != C::NAME {
            return Err(foreign());
        }
        match version.parse::<u32>() {
            Ok(v) if v == 0 || version.starts_with(['0', '+']) => Err(foreign()),
            Ok(v) if v <= C::VERSION => Ok(v),
            Ok(_) => Err(Refused::Newer { found: self.0.clone(), name: C::NAME, newest: C::VERSION }),
            Err(_) => Err(foreign()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Thing;
    impl Contract for Thing {
        const NAME: &'static str = "frazil.stored.thing";
        const VERSION: u32 = 2;
    }

    #[test]
    fn older_versions_are_read_newer_and_foreign_ones_refused() {
        let check = |text: &str| Tag(text.to_owned()).check::<Thing>();
        assert_eq!(Tag::of::<Thing>(), Tag("frazil.stored.thing/2".to_owned()));
        assert_eq!(check("frazil.stored.thing/1"), Ok(1));
        assert_eq!(check("frazil.stored.thing/2"), Ok(2));
        assert!(matches!(check("frazil.stored.thing/3"), Err(Refused::Newer { .. })));
        for bad in [
            "frazil.stored.thing",
            "frazil.stored.thing/",
            "frazil.stored.thing/x",
            "other/1",
            "frazil.stored.thing/0",
            "frazil.stored.thing/+1",
        ] {
            assert!(matches!(check(bad), Err(Refused::Foreign { .. })), "{bad}");
        }
    }
}
