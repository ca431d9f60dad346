//! The salt under which personal data is hashed.

use model::secret::Secret;
use pipeline::environment::{Environment, SecretReference};
use pipeline::resolved::Pipeline;

use crate::Error;

/// Shorter salts are found by trying: everything that is hashed under one is as good as written out.
const BYTES_MIN: usize = 16;

/// The salt of an environment, for a pipeline that hashes; none for others, which need none. `variable` looks a variable of
/// the process up by name.
///
/// # Errors
/// [`Error::Salt`], which never holds the salt.
pub fn salt(
    pipeline: &Pipeline,
    environment: &Environment,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Secret>, Error> {
    let Some(column) = pipeline.hashed_column() else { return Ok(None) };
    let missing = |why: String| Error::Salt { column: column.to_owned(), why };
    let Some(SecretReference::Env(name)) = &environment.pii_salt else {
        return Err(missing(format!("the environment `{}` names no `pii_salt`", environment.name)));
    };
    match variable(name) {
        None => Err(missing(format!("the variable `{name}`, which holds the salt, is not set"))),
        Some(salt) if salt.len() < BYTES_MIN => {
            Err(missing(format!("the salt in the variable `{name}` has fewer than {BYTES_MIN} bytes")))
        }
        Some(salt) => Ok(Some(Secret::new(salt.into_bytes()))),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn check(pii: &str, reference: Option<&str>, value: Option<&str>) -> Result<Option<Secret>, String> {
        let text = format!(
            "[source]\ntopics = [\"t\"]\n[value]\nformat = \"protobuf\"\nframing = \"bare\"\n\
             schema = {{ proto = \"x.proto\", message = \"p.M\" }}\n[table]\nname = \"db.t\"\ncolumns = {{ mail = {{ {pii} }} }}"
        );
        let environment = Environment {
            pii_salt: reference.map(|name| SecretReference::Env(name.to_owned())),
            ..Environment::embedded("/project/.frazil")
        };
        let pipeline = pipeline::file::parse(&text, &environment, Path::new("/project/pipelines/t.toml")).unwrap();
        let variable = |name: &str| value.filter(|_| name == "SALT").map(str::to_owned);
        salt(&pipeline, &environment, &variable).map_err(|e| e.to_string())
    }

    #[test]
    fn only_who_hashes_needs_a_salt() {
        let good = "0123456789abcdef";
        let hash = "pii = \"hash\"";
        assert_eq!(check(hash, Some("SALT"), Some(good)), Ok(Some(Secret::new(good.as_bytes()))));
        assert_eq!(check("pii = \"last4\"", None, None), Ok(None));
        for (reference, value, part) in [
            (None, Some(good), "the environment `local` names no `pii_salt`"),
            (Some("OTHER"), Some(good), "`OTHER`, which holds the salt, is not set"),
            (Some("SALT"), Some("hunter2"), "fewer than 16 bytes"),
        ] {
            let message = check(hash, reference, value).unwrap_err();
            assert!(message.contains(part) && message.contains("`mail`") && !message.contains("hunter2"), "{message}");
        }
    }
}
