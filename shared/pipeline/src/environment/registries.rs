//! `[env.X.registries.NAME]`: where schemas are kept.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::document::Section;
use crate::fault::code;
use crate::name;
use crate::reader::Reader;

use super::{SecretReference, aws, plain, secret, url};

/// What stands in the place of credentials in a URL.
const SECRET: &str = "\"env:SCHEMA_REGISTRY_AUTH\", the name of a variable that holds `user:password`";

/// A schema registry of an environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registry {
    /// AWS's Glue Schema Registry.
    Glue {
        /// Its name, where not every registry of the account is meant.
        registry_name: Option<String>,
        /// Its region, where it is not the one that AWS's own settings say.
        region: Option<String>,
        /// The role that reads it, of another account for example.
        assume_role: Option<String>,
        /// What the role asks for of those of other accounts.
        external_id: Option<String>,
    },
    /// What speaks Confluent's HTTP interface.
    Confluent {
        /// Where the interface begins, without credentials.
        url: String,
        /// Where a user and a password are: `user:password`, or `{"username": …, "password": …}`.
        secret: Option<SecretReference>,
        /// The certificates that alone are trusted to vouch for it, in PEM.
        ca: Option<PathBuf>,
        /// The certificate that we show, in PEM, and where its key is.
        certificate: Option<(PathBuf, SecretReference)>,
    },
    /// A folder of schemas, each named by its id, fingerprint or name.
    Files {
        /// The folder.
        dir: PathBuf,
    },
}

/// For each kind the keys that it takes.
const KINDS: [(&str, &[&str]); 3] = [
    ("glue", &["registry_name", "region", "assume_role", "external_id"]),
    ("confluent", &["url", "secret", "ca", "certificate", "key"]),
    ("files", &["dir"]),
];

pub(super) fn read<'t>(reader: &mut Reader<'t>, environment: Section<'t>, root: &Path) -> BTreeMap<String, Registry> {
    let mut registries = BTreeMap::new();
    let Some(section) = reader.section(environment, "registries") else { return registries };
    for entry in section.entries() {
        if !name::variable(entry.key) {
            let message = format!("`{}` cannot name a registry: letters, digits, `_` and `-`", entry.key);
            reader.fault(entry.key_at, code::INVALID, message);
        }
        if let Some(inner) = reader.section(section, entry.key)
            && let Some(registry) = registry(reader, inner, entry.key, root)
        {
            registries.insert(entry.key.to_owned(), registry);
        }
    }
    registries
}

fn registry<'t>(reader: &mut Reader<'t>, section: Section<'t>, name: &str, root: &Path) -> Option<Registry> {
    let block = format!("env.….registries.{name}");
    if section.get("kind").is_none() {
        reader.fault(section.at, code::MISSING, format!("`[{block}]` needs `kind`"));
    }
    let kinds = KINDS.map(|(kind, keys)| (kind, (kind, keys)));
    let (kind, keys) = reader.choice(section, "kind", &kinds, &[])?;
    for entry in section.entries().into_iter().filter(|entry| entry.key != "kind" && !keys.contains(&entry.key)) {
        // A key that no kind takes was reported.
        if let Some((other, _)) = KINDS.iter().find(|(_, keys)| keys.contains(&entry.key)) {
            let message = format!("`{}` is for a registry of the kind \"{other}\"; this one is \"{kind}\"", entry.key);
            reader.fault(entry.key_at, code::INVALID, message);
        }
    }
    match kind {
        "glue" => {
            let mut text = |name: &str| reader.text(section, name).map(|text| text.value);
            let [registry_name, assume_role, external_id] =
                ["registry_name", "assume_role", "external_id"].map(&mut text);
            let region = match reader.text(section, "region") {
                Some(text) => Some(aws::region(reader, &text, "region")?),
                None => None,
            };
            if let (None, Some(entry)) = (&assume_role, section.get("external_id")) {
                let message = "`external_id` is what a role asks for, and there is no `assume_role`";
                reader.fault(entry.key_at, code::INVALID, message);
            }
            Some(Registry::Glue { registry_name, region, assume_role, external_id })
        }
        "confluent" => {
            let url = reader.required_text(section, &block, "url");
            let url = url.and_then(|text| url::read(reader, &text, "url", SECRET));
            let secret_reference = secret(reader, section, "secret");
            let ca = path(reader, section, "ca", root);
            let (own, key) = (path(reader, section, "certificate", root), secret(reader, section, "key"));
            for (one, other) in [("certificate", "key"), ("key", "certificate")] {
                if let (Some(entry), None) = (section.get(one), section.get(other)) {
                    reader.fault(entry.key_at, code::MISSING, format!("`{one}` needs `{other}` beside it"));
                }
            }
            Some(Registry::Confluent { url: url?, secret: secret_reference, ca, certificate: own.zip(key) })
        }
        _ => {
            if section.get("dir").is_none() {
                reader.fault(section.at, code::MISSING, format!("`[{block}]` needs `dir`"));
            }
            path(reader, section, "dir", root).map(|dir| Registry::Files { dir })
        }
    }
}

fn path<'t>(reader: &mut Reader<'t>, section: Section<'t>, name: &str, root: &Path) -> Option<PathBuf> {
    let text = reader.text(section, name)?;
    if text.value.is_empty() {
        reader.fault(text.at, code::INVALID, format!("`{name}` is a path"));
        return None;
    }
    Some(plain(&root.join(text.value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::parse;

    fn of(text: &str) -> Result<BTreeMap<String, Registry>, Vec<String>> {
        let text = format!("[env.local]\ndir = \"x\"\n{text}");
        let faults = |faults: &[crate::Fault]| faults.iter().map(|fault| fault.message.clone()).collect::<Vec<_>>();
        let environments = parse(&text, Path::new("/project/frazil.toml")).map_err(|found| faults(&found))?;
        let environment = environments.get(None).map_err(|error| faults(error.faults()))?;
        Ok(environment.registries)
    }

    #[test]
    fn registries_are_read() {
        let text = r#"
            [env.local.registries.main]
            kind = "glue"
            registry_name = "employee-schema-registry"
            region = "eu-west-1"
            assume_role = "arn:aws:iam::123456789012:role/r"
            external_id = "x"
            [env.local.registries.old]
            kind = "confluent"
            url = "https://registry.example.com/api"
            secret = "env:SR_AUTH"
            ca = "certificates/ca.pem"
            certificate = "/etc/own.pem"
            key = "env:SR_KEY"
            [env.local.registries.plain]
            kind = "confluent"
            url = "http://localhost:8081"
            [env.local.registries.all]
            kind = "glue"
            [env.local.registries.disk]
            kind = "files"
            dir = "schemas"
        "#;
        let words = |text: &str| Some(text.to_owned());
        let env = |name: &str| SecretReference::Env(name.to_owned());
        let expected = [
            ("all", Registry::Glue { registry_name: None, region: None, assume_role: None, external_id: None }),
            ("disk", Registry::Files { dir: "/project/schemas".into() }),
            (
                "main",
                Registry::Glue {
                    registry_name: words("employee-schema-registry"),
                    region: words("eu-west-1"),
                    assume_role: words("arn:aws:iam::123456789012:role/r"),
                    external_id: words("x"),
                },
            ),
            (
                "old",
                Registry::Confluent {
                    url: "https://registry.example.com/api".to_owned(),
                    secret: Some(env("SR_AUTH")),
                    ca: Some("/project/certificates/ca.pem".into()),
                    certificate: Some(("/etc/own.pem".into(), env("SR_KEY"))),
                },
            ),
            (
                "plain",
                Registry::Confluent {
                    url: "http://localhost:8081".to_owned(),
                    secret: None,
                    ca: None,
                    certificate: None,
                },
            ),
        ];
        assert_eq!(of(text), Ok(expected.map(|(name, registry)| (name.to_owned(), registry)).into()));
    }

    #[test]
    fn what_is_wrong_is_said_and_no_credential_repeated() {
        let check = |keys: &str, expected: &[&str]| {
            let faults = of(&format!("[env.local.registries.r]\n{keys}")).unwrap_err();
            assert_eq!(faults.len(), expected.len(), "{keys}: {faults:?}");
            for (fault, words) in faults.iter().zip(expected) {
                assert!(fault.contains(words) && !fault.contains("hunter2"), "{keys}: {fault}");
            }
        };
        let confluent = |keys: &str| format!("kind = \"confluent\"\nurl = \"https://r\"\n{keys}");
        check("", &["needs `kind`"]);
        check("kind = \"gleu\"", &["did you mean \"glue\""]);
        check("kind = \"confluent\"", &["needs `url`"]);
        check("kind = \"files\"", &["needs `dir`"]);
        check("kind = \"files\"\ndir = \"\"", &["`dir` is a path"]);
        check("kind = \"glue\"\nurl = \"https://r\"", &["`url` is for a registry of the kind \"confluent\""]);
        check("kind = \"glue\"\nexternal_id = \"x\"", &["no `assume_role`"]);
        check("kind = \"confluent\"\nurl = \"https://u:hunter2@r\"", &["holds credentials"]);
        check("kind = \"confluent\"\nurl = \"https://hunter2@r/x\"", &["holds credentials"]);
        check("kind = \"confluent\"\nurl = \"hunter2\"", &["begins with https://"]);
        check("kind = \"confluent\"\nurl = \"https:///hunter2\"", &["names a host"]);
        check("kind = \"confluent\"\nurl = \"https://r?p=hunter2\"", &["query"]);
        check("kind = \"confluent\"\nurl = \"https://r:99999\"", &["whose port"]);
        check("kind = \"glue\"\nregion = \"Frankfurt\"", &["takes an AWS region"]);
        check(&confluent("secret = \"user:hunter2\""), &["a secret itself never"]);
        check(&confluent("secret = \"hunter2\""), &["a secret itself never"]);
        check(&confluent("secret = \"secretsmanager:sr-auth\""), &["secretsmanager:…"]);
        check(&confluent("secret = \"ssm:/sr-auth\""), &["ssm:…"]);
        check(&confluent("certificate = \"own.pem\""), &["`certificate` needs `key`"]);
        check(&confluent("key = \"env:KEY\""), &["`key` needs `certificate`"]);
        check(&confluent("certificate = \"own.pem\"\nkey = \"-----BEGIN hunter2\""), &["a secret itself never"]);
        check(&confluent("usr = \"x\""), &["unknown key `usr`"]);
    }
}
