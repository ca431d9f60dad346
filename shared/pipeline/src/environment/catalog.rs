//! `catalog` of `[env.X]`: what names the tables.

use std::path::{Path, PathBuf};

use toml::de::DeValue;

use crate::document::Section;
use crate::fault::code;
use crate::nearest::nearest;
use crate::reader::Reader;

use super::{SecretReference, plain, secret};

/// A catalog of tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Catalog {
    /// A database file with the standard layout of SQL catalogs.
    Sqlite(PathBuf),
    /// The Glue Data Catalog of the account.
    Glue {
        /// Its region, where it is not the one of the AWS settings.
        region: Option<String>,
    },
    /// What speaks Iceberg's REST interface.
    Rest(Rest),
}

/// A catalog that speaks Iceberg's REST interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rest {
    /// Where the interface begins, without `/v1` and without credentials.
    pub url: String,
    /// What the server calls the warehouse, where it has several.
    pub warehouse: Option<String>,
    /// Who we are to it.
    pub auth: RestAuth,
}

/// Who we are to a REST catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestAuth {
    /// Nobody.
    Nothing,
    /// Who holds a token.
    Token(SecretReference),
    /// By OAuth 2.0's client credentials.
    OAuth2 {
        /// Where `ID:SECRET` is.
        secret: SecretReference,
        /// What is asked for.
        scope: Option<String>,
        /// Who gives tokens, where it is not the catalog itself.
        server: Option<String>,
    },
    /// By AWS's signatures.
    SigV4 {
        /// The service's name in them.
        service: String,
        /// Its region, where it is not the one of the AWS settings.
        region: Option<String>,
    },
}

pub(super) fn read<'t>(
    reader: &mut Reader<'t>,
    section: Section<'t>,
    default: Catalog,
    root: &Path,
) -> Option<Catalog> {
    let Some(entry) = section.get("catalog") else { return Some(default) };
    if matches!(entry.value.get_ref(), DeValue::Table(_)) {
        let inner = reader.section(section, "catalog")?;
        return table(reader, inner).map(Catalog::Rest);
    }
    let text = reader.text(section, "catalog")?;
    match text.value.split_once(':').unwrap_or((&text.value, "")) {
        ("sqlite", "") => reader.fault(text.at, code::INVALID, "`catalog = \"sqlite:PATH\"` names a file"),
        ("sqlite", path) => return Some(Catalog::Sqlite(plain(&root.join(path)))),
        ("glue", region) if region.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') => {
            return Some(Catalog::Glue { region: (!region.is_empty()).then(|| region.to_owned()) });
        }
        ("glue", _) => {
            let message = "`catalog = \"glue:REGION\"` names a region such as \"eu-west-1\"; \"glue\" takes that of the AWS settings";
            reader.fault(text.at, code::INVALID, message);
        }
        ("rest", url) => {
            let url = self::url(reader, url, text.at, "catalog = \"rest:URL\"")?;
            return Some(Catalog::Rest(Rest { url, warehouse: None, auth: RestAuth::Nothing }));
        }
        ("s3tables", _) => reader.not_yet(text.at, "catalog = \"s3tables:…\""),
        (kind, _) => {
            let nearest = nearest(kind, ["sqlite", "glue", "rest", "s3tables"]);
            let meant = nearest.map_or_else(String::new, |n| format!("; did you mean `{n}`?"));
            // What looks like a URL may hold a password.
            let shown = if text.value.contains("//") { format!("{kind:?}…") } else { format!("{:?}", text.value) };
            let message = format!(
                "`catalog` cannot be {shown}; it takes \"sqlite:PATH\", \"glue\", \"glue:REGION\", \"rest:URL\" or {{ rest = \"URL\", … }}{meant}"
            );
            reader.near(text.at, code::INVALID, message, nearest);
        }
    }
    None
}

/// What each way to be somebody takes besides.
const AUTHS: [(&str, &[&str]); 4] =
    [("none", &[]), ("token", &["secret"]), ("oauth2", &["secret", "scope", "oauth2_server"]), ("sigv4", &["region"])];

fn table<'t>(reader: &mut Reader<'t>, section: Section<'t>) -> Option<Rest> {
    let url = reader.required_text(section, "catalog", "rest");
    let url = url.and_then(|text| self::url(reader, &text.value, text.at, "rest"));
    let mut text = |name: &str| reader.text(section, name).map(|text| text.value);
    let [warehouse, auth, scope, server, region] =
        ["warehouse", "auth", "scope", "oauth2_server", "region"].map(&mut text);
    let secret = secret(reader, section, "secret");
    let auth = auth.unwrap_or_else(|| "none".to_owned());
    let (kind, service) = auth.split_once(':').map_or((auth.as_str(), None), |(kind, service)| (kind, Some(service)));
    let at = section.get("auth").map_or(section.at, |entry| entry.value_at());
    let known = AUTHS.iter().find(|(name, _)| *name == kind && (service.is_some() == (*name == "sigv4")));
    let Some((_, takes)) = known else {
        let message = "`auth` takes \"none\", \"token\", \"oauth2\", \"sigv4:glue\" or \"sigv4:s3tables\"";
        reader.fault(at, code::INVALID, message);
        return None;
    };
    for name in ["secret", "scope", "oauth2_server", "region"] {
        if let (Some(entry), false) = (section.get(name), takes.contains(&name)) {
            reader.fault(entry.key_at, code::INVALID, format!("`{name}` has no meaning with `auth = \"{kind}\"`"));
        }
    }
    if takes.contains(&"secret") && section.get("secret").is_none() {
        reader.fault(
            at,
            code::MISSING,
            format!("`auth = \"{kind}\"` needs `secret` beside it, as in \"env:CATALOG_SECRET\""),
        );
    }
    let auth = match kind {
        "token" => RestAuth::Token(secret?),
        "oauth2" => RestAuth::OAuth2 { secret: secret?, scope, server },
        "sigv4" => RestAuth::SigV4 { service: service.unwrap_or_default().to_owned(), region },
        _ => RestAuth::Nothing,
    };
    Some(Rest { url: url?, warehouse, auth })
}

/// A URL may hold a password: it is not repeated.
fn url(reader: &mut Reader<'_>, text: &str, at: usize, name: &str) -> Option<String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let wrong = match rest.map(|rest| rest.split_once('/').unwrap_or((rest, "")).0) {
        None => "takes a URL that begins with https:// or http://",
        Some("") => "takes a URL that names a host",
        Some(host) if host.contains('@') => "holds credentials; they are a `secret`, as in \"env:CATALOG_SECRET\"",
        Some(_) if text.contains(['?', '#']) => "takes a URL with neither a query nor a fragment",
        Some(_) => return Some(text.to_owned()),
    };
    reader.fault(at, code::INVALID, format!("`{name}` {wrong}"));
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::parse;

    fn of(catalog: &str) -> Result<Catalog, Vec<String>> {
        let text = format!("[env.local]\ndir = \"x\"\nwarehouse = \"s3://bucket/w\"\ncatalog = {catalog}");
        let faults = |faults: &[crate::Fault]| faults.iter().map(|fault| fault.message.clone()).collect::<Vec<_>>();
        let environments = parse(&text, Path::new("/project/frazil.toml")).map_err(|found| faults(&found))?;
        let environment = environments.get(None).map_err(|error| faults(error.faults()))?;
        Ok(environment.catalog)
    }

    #[test]
    fn catalogs_are_read() {
        let rest = |warehouse: Option<&str>, auth: RestAuth| {
            let url = "https://catalog.example.com/api".to_owned();
            Ok(Catalog::Rest(Rest { url, warehouse: warehouse.map(str::to_owned), auth }))
        };
        let secret = || SecretReference::Env("S".to_owned());
        let words = |text: &str| Some(text.to_owned());
        let table = |keys: &str| of(&format!("{{ rest = \"https://catalog.example.com/api\", {keys} }}"));
        assert_eq!(of("\"glue\""), Ok(Catalog::Glue { region: None }));
        assert_eq!(of("\"glue:eu-west-1\""), Ok(Catalog::Glue { region: words("eu-west-1") }));
        assert_eq!(of("\"rest:https://catalog.example.com/api\""), rest(None, RestAuth::Nothing));
        assert_eq!(table("warehouse = \"lake\""), rest(Some("lake"), RestAuth::Nothing));
        assert_eq!(table("auth = \"token\", secret = \"env:S\""), rest(None, RestAuth::Token(secret())));
        let oauth2 = RestAuth::OAuth2 { secret: secret(), scope: words("all"), server: words("https://sso/token") };
        let keys = "auth = \"oauth2\", secret = \"env:S\", scope = \"all\", oauth2_server = \"https://sso/token\"";
        assert_eq!(table(keys), rest(None, oauth2));
        let signed = RestAuth::SigV4 { service: "s3tables".to_owned(), region: words("eu-west-1") };
        let keys = "warehouse = \"arn:x\", auth = \"sigv4:s3tables\", region = \"eu-west-1\"";
        assert_eq!(table(keys), rest(Some("arn:x"), signed));
    }

    #[test]
    fn what_is_wrong_is_said_and_no_credential_repeated() {
        let check = |catalog: &str, words: &str| {
            let faults = of(catalog).unwrap_err();
            assert!(faults.len() == 1 && faults[0].contains(words), "{catalog}: {faults:?}");
            assert!(!faults[0].contains("hunter2"), "{faults:?}");
        };
        check("\"rest:\"", "begins with https://");
        check("\"rest:https://u:hunter2@host\"", "holds credentials");
        check("\"https://u:hunter2@host\"", "cannot be \"https\"…");
        check("{ warehouse = \"w\" }", "`rest`");
        check("{ rest = \"https://host?p=hunter2\" }", "query");
        check("{ rest = \"https://h\", auth = \"basic\" }", "`auth` takes");
        check("{ rest = \"https://h\", auth = \"sigv4\" }", "`auth` takes");
        check("{ rest = \"https://h\", auth = \"oauth2\" }", "needs `secret`");
        check("{ rest = \"https://h\", secret = \"env:S\" }", "no meaning with `auth = \"none\"`");
        check("{ rest = \"https://h\", auth = \"token\", secret = \"hunter2\" }", "a secret itself never");
        check("{ rest = \"https://h\", auht = \"token\" }", "auht");
    }
}
