//! `catalog` of `[env.X]`: what names the tables.

use std::path::{Path, PathBuf};

use toml::de::DeValue;

use crate::document::Section;
use crate::fault::code;
use crate::nearest::nearest;
use crate::reader::Reader;

use super::{SecretReference, aws, plain, secret, url};

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
    /// A table bucket of S3 Tables, by its own interface. It gives each table a place of its own.
    S3Tables {
        /// The table bucket's ARN.
        bucket_arn: String,
        /// Its region, which the ARN says.
        region: String,
    },
    /// What speaks Iceberg's REST interface.
    Rest(Rest),
}

/// Services of AWS that take signed requests of REST catalogs: the two that are one, and the gateway that others stand behind.
const SIGNED: [&str; 3] = ["glue", "s3tables", "execute-api"];

/// What stands in the place of credentials in a URL.
const SECRET: &str = "\"env:CATALOG_SECRET\"";

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
        /// The service's name in them: `glue`, `s3tables` or `execute-api`.
        service: String,
        /// Its region, where it is not the one of the AWS settings.
        region: Option<String>,
    },
}

/// Whether the catalog gives each table its own place, by what kind it is said to be.
pub(super) fn gives_places(section: Section<'_>) -> bool {
    let Some(entry) = section.get("catalog") else { return false };
    matches!(entry.value.get_ref(), DeValue::String(text) if text.split(':').next() == Some("s3tables"))
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
        ("glue", "") if text.value == "glue" => return Some(Catalog::Glue { region: None }),
        ("glue", region) if aws::is_region(region) => {
            return Some(Catalog::Glue { region: Some(region.to_owned()) });
        }
        ("glue", _) => {
            let message = "`catalog = \"glue:REGION\"` names a region such as \"eu-west-1\"; \"glue\" takes that of the AWS settings";
            reader.fault(text.at, code::INVALID, message);
        }
        ("rest", url) => {
            let url = url::of(reader, url, text.at, "catalog = \"rest:URL\"", SECRET)?;
            return Some(Catalog::Rest(Rest { url, warehouse: None, auth: RestAuth::Nothing }));
        }
        ("s3tables", arn) => match aws::region_of_table_bucket(arn) {
            Some(region) => return Some(Catalog::S3Tables { bucket_arn: arn.to_owned(), region: region.to_owned() }),
            None => {
                let message = "`catalog = \"s3tables:ARN\"` names a table bucket by its ARN, such as \"arn:aws:s3tables:eu-west-1:111122223333:bucket/lake\"";
                reader.fault(text.at, code::INVALID, message);
            }
        },
        (kind, _) => {
            let nearest = nearest(kind, ["sqlite", "glue", "rest", "s3tables"]);
            let meant = nearest.map_or_else(String::new, |n| format!("; did you mean `{n}`?"));
            // What looks like a URL may hold a password.
            let shown = if text.value.contains("//") { format!("{kind:?}…") } else { format!("{:?}", text.value) };
            let message = format!(
                "`catalog` cannot be {shown}; it takes \"sqlite:PATH\", \"glue\", \"glue:REGION\", \"s3tables:ARN\", \"rest:URL\" or {{ rest = \"URL\", … }}{meant}"
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
    let url = url.and_then(|text| url::read(reader, &text, "rest", SECRET));
    let mut text = |name: &str| reader.text(section, name);
    let [warehouse, auth, scope, server, region] =
        ["warehouse", "auth", "scope", "oauth2_server", "region"].map(&mut text);
    let [warehouse, auth, scope] = [warehouse, auth, scope].map(|text| text.map(|text| text.value));
    let server = server.map(|text| url::read(reader, &text, "oauth2_server", SECRET));
    let region = region.map(|text| aws::region(reader, &text, "region"));
    let secret = secret(reader, section, "secret");
    let auth = auth.unwrap_or_else(|| "none".to_owned());
    let (kind, service) = auth.split_once(':').map_or((auth.as_str(), None), |(kind, service)| (kind, Some(service)));
    let at = section.get("auth").map_or(section.at, |entry| entry.value_at());
    let known = AUTHS.iter().find(|(name, _)| *name == kind && (service.is_some() == (*name == "sigv4")));
    let Some((_, takes)) = known else {
        reader.fault(at, code::INVALID, format!("`auth` takes \"none\", \"token\", \"oauth2\" or {}", signed()));
        return None;
    };
    if let Some(service) = service.filter(|service| !SIGNED.contains(service)) {
        let nearest = nearest(service, SIGNED);
        let meant = nearest.map_or_else(String::new, |n| format!("; did you mean `sigv4:{n}`?"));
        reader.near(at, code::INVALID, format!("`auth` takes {} for signed requests{meant}", signed()), nearest);
        return None;
    }
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
        // What could not be read is no default.
        "oauth2" => {
            RestAuth::OAuth2 { secret: secret?, scope, server: server.map_or(Some(None), |url| url.map(Some))? }
        }
        "sigv4" => {
            let region = region.map_or(Some(None), |region| region.map(Some))?;
            RestAuth::SigV4 { service: service.unwrap_or_default().to_owned(), region }
        }
        _ => RestAuth::Nothing,
    };
    Some(Rest { url: url?, warehouse, auth })
}

/// Every way to sign, as a fault says it.
fn signed() -> String {
    let [glue, tables, gateway] = SIGNED;
    format!("\"sigv4:{glue}\", \"sigv4:{tables}\" or \"sigv4:{gateway}\"")
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
        let gateway = RestAuth::SigV4 { service: "execute-api".to_owned(), region: None };
        assert_eq!(table("auth = \"sigv4:execute-api\""), rest(None, gateway));
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
        check("\"glue:\"", "names a region");
        check("\"glue:europe\"", "names a region");
        check("\"rest:https://h:99999/api\"", "whose port");
        check("{ rest = \"https://h:0\" }", "whose port");
        check(
            "{ rest = \"https://h\", auth = \"sigv4:x\" }",
            "takes \"sigv4:glue\", \"sigv4:s3tables\" or \"sigv4:execute-api\"",
        );
        check("{ rest = \"https://h\", auth = \"sigv4:s3table\" }", "did you mean `sigv4:s3tables`?");
        check("{ rest = \"https://h\", auth = \"sigv4:\" }", "`auth` takes");
        check("{ rest = \"https://h\", auth = \"sigv4:glue\", region = \"Ireland\" }", "takes an AWS region");
        let oauth2 = |server: &str| {
            format!("{{ rest = \"https://h\", auth = \"oauth2\", secret = \"env:S\", oauth2_server = \"{server}\" }}")
        };
        check(&oauth2("https://ann:hunter2@sso/token"), "`oauth2_server` holds credentials");
        check(&oauth2("https://sso:99999/token"), "`oauth2_server` takes a URL whose port");
        check(&oauth2("sso"), "`oauth2_server` takes a URL that begins");
    }
}
