//! The schema registries of an environment, as one: for the function and for the command line.

use std::sync::Arc;

use model::clock::Clock;
use pipeline::environment::{Environment, RecordFormat, Registry};
use pipeline::resolved::{Format, Framing, Pipeline, Schema, Value};
use registry::files::Folder;
use registry::{Limits, Registries, Source};

use crate::Error;

/// The registries of the environment that a pipeline's records, values and keys, name schemas of, with their names. They are those that the pipeline's
/// schema is in, in its order. Where that is a file, they are all of the environment's, by name; none where records are bare and no
/// mapping takes framings off, for then nobody is asked.
///
/// # Errors
/// [`Error::NoRegistry`] where a framing takes one and there is none, [`Error::Registry`] where the environment has none of a name,
/// [`Error::HandedOver`] where the mapping makes something else of payloads than the pipeline reads.
pub fn registries_of<'e>(
    pipeline: &'e Pipeline,
    environment: &'e Environment,
) -> Result<Vec<(&'e str, &'e Registry)>, Error> {
    if environment.mapping.registry.is_some()
        && environment.mapping.record_format == RecordFormat::Json
        && let Some(value) = read(pipeline).find(|value| matches!(value.format, Format::Protobuf | Format::Avro))
    {
        return Err(Error::HandedOver { format: value.format });
    }
    let mut names: Vec<&String> = Vec::new();
    for value in read(pipeline) {
        let needed: Vec<&String> = match &value.schema {
            Schema::Registered { registries, .. } => registries.iter().collect(),
            _ if value.framing == Framing::Bare && environment.mapping.registry.is_none() => Vec::new(),
            _ => environment.registries.keys().collect(),
        };
        if needed.is_empty() && matches!(value.framing, Framing::Glue | Framing::Confluent) {
            let needs = "records of this framing name schemas that are kept in one".to_owned();
            return Err(Error::NoRegistry { needs });
        }
        for name in needed {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let found = |name: &'e String| match environment.registries.get(name) {
        Some(settings) => Ok((name.as_str(), settings)),
        None => {
            let why = format!("the environment `{}` has no registry of that name", environment.name);
            Err(Error::Registry { name: name.clone(), why })
        }
    };
    names.into_iter().map(found).collect()
}

/// How values are read, and keys where they are.
fn read(pipeline: &Pipeline) -> impl Iterator<Item = &Value> {
    std::iter::once(&pipeline.value).chain(&pipeline.key)
}

/// The registries of [`registries_of`] as one. `variable` looks the variables up that secrets are in. Nothing is asked yet.
///
/// # Errors
/// As [`registries_of`]; [`Error::Registry`] where one can't be used.
pub async fn registries(
    pipeline: &Pipeline,
    environment: &Environment,
    variable: &dyn Fn(&str) -> Option<String>,
    clock: Arc<dyn Clock>,
) -> Result<Registries, Error> {
    let mut sources: Vec<Arc<dyn Source>> = Vec::new();
    for (name, settings) in registries_of(pipeline, environment)? {
        sources.push(source(name, settings, variable).await?);
    }
    Ok(Registries::new(sources, clock, Limits::default()))
}

/// One registry of an environment. Nothing is asked yet.
///
/// # Errors
/// [`Error::Registry`] where it can't be used.
pub async fn source(
    name: &str,
    settings: &Registry,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Arc<dyn Source>, Error> {
    made(name, settings, variable).await.map_err(|why| Error::Registry { name: name.to_owned(), why })
}

/// One registry; why it can't be used, without any secret.
async fn made(
    name: &str,
    settings: &Registry,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Arc<dyn Source>, String> {
    match settings {
        Registry::Files { dir } => Ok(Arc::new(Folder::new(name, dir))),
        Registry::Confluent { .. } => confluent::source(name, settings, variable),
        Registry::Glue { .. } => glue::source(name, settings).await,
    }
}

#[cfg(feature = "confluent")]
mod confluent {
    use std::path::Path;
    use std::sync::Arc;

    use model::secret::Secret;
    use pipeline::environment::{Registry, SecretReference};
    use registry::Source;
    use registry::confluent::{Confluent, Credentials, Identity, Settings};

    pub(super) fn source(
        name: &str,
        settings: &Registry,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Arc<dyn Source>, String> {
        let Registry::Confluent { url, secret, ca, certificate } = settings else {
            return Err("it is of another kind".to_owned());
        };
        let secret_of = |SecretReference::Env(name): &SecretReference| {
            let value = variable(name).filter(|value| !value.is_empty());
            value
                .map(|value| Secret::new(value.into_bytes()))
                .ok_or_else(|| format!("the variable `{name}` is not set"))
        };
        let file =
            |path: &Path| std::fs::read(path).map_err(|error| format!("{} can't be read: {error}", path.display()));
        let credentials =
            secret.as_ref().map(|secret| Credentials::parse(&secret_of(secret)?).map_err(|error| error.to_string()));
        let identity = certificate
            .as_ref()
            .map(|(chain, key)| Ok::<_, String>(Identity { chain_pem: file(chain)?, key_pem: secret_of(key)? }));
        let settings = Settings {
            credentials: credentials.transpose()?,
            trusted_pem: ca.as_deref().map(file).transpose()?,
            identity: identity.transpose()?,
            ..Settings::new(name, url)
        };
        Ok(Arc::new(Confluent::new(&settings).map_err(|error| error.to_string())?))
    }
}

#[cfg(not(feature = "confluent"))]
mod confluent {
    use std::sync::Arc;

    use pipeline::environment::Registry;
    use registry::Source;

    pub(super) fn source(_: &str, _: &Registry, _: &dyn Fn(&str) -> Option<String>) -> Result<Arc<dyn Source>, String> {
        Err("this build leaves registries of the kind \"confluent\" out".to_owned())
    }
}

#[cfg(feature = "glue")]
mod glue {
    use std::sync::Arc;

    use aws::schemas::{Access, GlueSchemas};
    use pipeline::environment::Registry;
    use registry::Source;

    pub(super) async fn source(name: &str, settings: &Registry) -> Result<Arc<dyn Source>, String> {
        let Registry::Glue { registry_name, region, assume_role, external_id } = settings else {
            return Err("it is of another kind".to_owned());
        };
        let access = Access {
            name: name.to_owned(),
            registry_name: registry_name.clone(),
            region: region.clone(),
            assume_role: assume_role.clone(),
            external_id: external_id.clone(),
        };
        // Boxed, for it holds the futures of looking settings up.
        let connected = Box::pin(GlueSchemas::connect(access)).await;
        Ok(Arc::new(connected.map_err(|error| error.to_string())?))
    }
}

#[cfg(not(feature = "glue"))]
mod glue {
    use std::sync::Arc;

    use pipeline::environment::Registry;
    use registry::Source;

    pub(super) async fn source(_: &str, _: &Registry) -> Result<Arc<dyn Source>, String> {
        Err("this build leaves registries of the kind \"glue\" out".to_owned())
    }
}
