//! From a schema that a registry keeps.

use std::path::PathBuf;

use codec::framing::Message;
use codec::schema::{Kind, Registered};
use codec::written::Written;
use pipeline::environment::{self as file, Environment, Registry};
use pipeline::resolved::Format;
use registry::Wanted;

use super::{Draft, quoted};
use crate::Session;
use crate::arguments::Init;
use crate::command::ingest::failed;
use crate::manners::failure::Failure;

/// What a registry is called that only its URL was given of.
const NAME: &str = "main";

/// A registry, and the file that makes it known where none does.
pub(super) struct Known {
    pub(super) name: String,
    pub(super) registry: Registry,
    pub(super) file: Option<(PathBuf, String)>,
}

pub(super) async fn draft(
    arguments: &Init,
    framing: Option<String>,
    environment: &Environment,
    session: &Session<'_>,
) -> Result<Draft, Failure> {
    let known = known(arguments.registry.as_deref(), environment)?;
    let subject = arguments.subject.clone().unwrap_or_default();
    let registered = ask(&known, &Wanted::Latest(subject.clone()), session).await?;
    let framing = framing.unwrap_or_else(|| {
        let own = match known.registry {
            Registry::Glue { .. } => "glue",
            Registry::Confluent { .. } => "confluent",
            Registry::Files { .. } => "auto",
        };
        own.to_owned()
    });
    of(known, &subject, &registered, framing, arguments.message.as_deref())
}

/// The draft of a schema in a registry.
pub(super) fn of(
    known: Known,
    subject: &str,
    registered: &Registered,
    framing: String,
    message: Option<&str>,
) -> Result<Draft, Failure> {
    let (format, word) = match registered.kind {
        Kind::Protobuf => (Format::Protobuf, "protobuf"),
        Kind::Avro => (Format::Avro, "avro"),
        Kind::Json => (Format::Json, "json"),
    };
    if message.is_some() && format != Format::Protobuf {
        return Err(Failure::usage("init.message", "--message is for protobuf alone").remedy("leave it out"));
    }
    let schema = Written::compile(registered, format).and_then(|written| written.schema(Message::Unsaid, message));
    let schema = schema.map_err(|rejected| {
        Failure::usage("init.schema", format!("`{subject}`: {}", rejected.message))
            .remedy("say which message the topic's values are: --message NAME; or name another --subject")
    })?;
    let message = match format {
        Format::Protobuf => format!(", message = {}", quoted(schema.name())),
        _ => String::new(),
    };
    let schema = format!("{{ registry = {}, name = {}{message} }}", quoted(&known.name), quoted(subject));
    let files = known.file.into_iter().collect();
    Ok(Draft { format: word, framing, schema: Some(schema), files, ..Draft::default() })
}

/// The registry of a name or URL; without one the only one that there is.
pub(super) fn known(wanted: Option<&str>, environment: &Environment) -> Result<Known, Failure> {
    let names: Vec<&str> = environment.registries.keys().map(String::as_str).collect();
    let refused = |message: String| {
        let remedy = match names.as_slice() {
            [] => "add one under `registries` of frazil.toml, or give the URL of one: --registry http://…".to_owned(),
            names => format!("name one of frazil.toml: --registry {}", names.join(" or ")),
        };
        Failure::usage("init.registry", message).at("--registry").remedy(remedy)
    };
    let of = |name: &str, registry: &Registry| Known { name: name.to_owned(), registry: registry.clone(), file: None };
    match wanted {
        Some(url) if url.starts_with("http://") || url.starts_with("https://") => by_url(url, environment),
        Some(name) => {
            let found = environment.registries.get(name);
            found.map(|registry| of(name, registry)).ok_or_else(|| refused(format!("there is no registry `{name}`")))
        }
        None => match (environment.registries.first_key_value(), names.len()) {
            (Some((name, registry)), 1) => Ok(of(name, registry)),
            (None, _) => Err(refused("there is no registry".to_owned())),
            _ => Err(refused("there are several registries".to_owned())),
        },
    }
}

/// One of the environment's that has this URL; else one that a new frazil.toml names.
fn by_url(url: &str, environment: &Environment) -> Result<Known, Failure> {
    let is_it = |registry: &Registry| matches!(registry, Registry::Confluent { url: known, .. } if known == url);
    if let Some((name, registry)) = environment.registries.iter().find(|(_, registry)| is_it(registry)) {
        return Ok(Known { name: name.clone(), registry: registry.clone(), file: None });
    }
    let unusable = || {
        Failure::usage("init.registry", "this is no URL of a registry, or it holds credentials")
            .at("--registry")
            .remedy("give https://HOST/PATH; credentials are `secret = \"env:NAME\"` of its block in frazil.toml")
    };
    // It would be repeated in what is said to add.
    if url.contains('@') {
        return Err(unusable());
    }
    let line = format!("registries.{NAME} = {{ kind = \"confluent\", url = {} }}", quoted(url));
    if environment.root.is_some() {
        return Err(Failure::usage("init.registry", "frazil.toml names no registry of this URL")
            .at("--registry")
            .remedy(format!("add it to the environment's block, and name it with --registry {NAME}: {line}")));
    }
    let text = format!("[env.local]\ndir = \".frazil\"\n{line}\n");
    // What is wrong with the URL its own reader says.
    let environments = file::parse(&text, &PathBuf::from(file::FILE));
    let read = environments.and_then(|all| all.get(None).map_err(|error| error.faults().to_vec()));
    let registry = read.ok().and_then(|environment| environment.registries.get(NAME).cloned());
    let registry = registry.ok_or_else(unusable)?;
    Ok(Known { name: NAME.to_owned(), registry, file: Some((PathBuf::from(file::FILE), text)) })
}

/// Asks a registry for a schema.
pub(super) async fn ask(known: &Known, wanted: &Wanted, session: &Session<'_>) -> Result<Registered, Failure> {
    let source = Box::pin(ingest::source(&known.name, &known.registry, &session.variable)).await;
    let answer = source.map_err(|e| failed(&e))?.schema(wanted).await;
    answer.map_err(|error| match error {
        registry::Error::NotFound { .. } => Failure::usage("init.subject", error.to_string())
            .remedy("name the schema as the registry has it: --subject S"),
        error => failed(&error.into()),
    })
}
