//! The function's settings, read by name through a look-up, and the ingest they make.
//!
//! | setting | meaning |
//! | --- | --- |
//! | `FRAZIL_STORE` | where objects go: `file:///` and an absolute folder |
//! | `FRAZIL_PIPELINE` | the pipeline file |
//! | `FRAZIL_PIPELINE_ID` | the pipeline's id, `<name>-<8 hex>` |
//! | `FRAZIL_ENV` | the environment whose variables the pipeline file uses; `local` when unset |
//! | `FRAZIL_LOG` | the log's level; `info` when unset |
//! | `FRAZIL_LOG_FORMAT` | `json` or `text`; `json` when unset |
//!
//! The variables that secrets of the environment are in, a registry's or the salt of personal data, are read, too, where they are
//! needed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::clock::Clock;
use model::id::PipelineId;
use pipeline::{environment, file};
use runtime::log;
use runtime::settings::{Faults, Settings};
use staging::local::LocalStore;

use crate::{Error, Ingest, IngestConfig};

/// What the runtime interface sets in every function, and the runtime library takes for granted.
const SET_BY_LAMBDA: [&str; 4] = [
    "AWS_LAMBDA_RUNTIME_API",
    "AWS_LAMBDA_FUNCTION_NAME",
    "AWS_LAMBDA_FUNCTION_VERSION",
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
];

/// The function's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The folder that objects go to.
    pub store: PathBuf,
    /// The pipeline file.
    pub pipeline: PathBuf,
    /// The pipeline's id.
    pub pipeline_id: PipelineId,
    /// The environment's name.
    pub environment: Option<String>,
    /// The log.
    pub log: log::Config,
}

impl Config {
    /// Reads the settings.
    ///
    /// # Errors
    /// Every setting that is missing or can't be used.
    pub fn parse(get: &dyn Fn(&str) -> Option<String>) -> Result<Self, Faults> {
        let mut settings = Settings::new(get);
        for name in SET_BY_LAMBDA {
            if settings.optional(name).is_none() {
                let message = "Lambda sets it, so this is no Lambda function; elsewhere use `frazil ingest --event`";
                settings.fault(name, message);
            }
        }
        let store = settings.required("FRAZIL_STORE", folder);
        let pipeline = settings.required("FRAZIL_PIPELINE", |text| Ok(PathBuf::from(text)));
        let id = |text: &str| text.parse().map_err(|e: model::id::ParseError| e.to_string());
        let pipeline_id = settings.required("FRAZIL_PIPELINE_ID", id);
        let environment = settings.optional("FRAZIL_ENV");
        let log = log::Config::parse(&mut settings, log::Format::Json);
        let config = || Some(Self { store: store?, pipeline: pipeline?, pipeline_id: pipeline_id?, environment, log });
        settings.finish(config())
    }
}

fn folder(url: &str) -> Result<PathBuf, String> {
    if url.starts_with("s3://") {
        return Err(format!("{url:?}: stores in S3 are not built yet; this version takes \"file:///\" and a folder"));
    }
    match url.strip_prefix("file://") {
        Some(path) if Path::new(path).is_absolute() => Ok(PathBuf::from(path)),
        _ => Err(format!("{url:?} is not \"file:///\" and an absolute folder")),
    }
}

/// Reads the pipeline file with its schema, and opens the store. `variable` looks the variables up that secrets are in.
///
/// # Errors
/// [`Error::Pipeline`], [`Error::Store`], and as [`IngestConfig::open`].
pub async fn open(
    config: &Config,
    variable: &dyn Fn(&str) -> Option<String>,
    clock: Arc<dyn Clock>,
) -> Result<Ingest, Error> {
    let folder = config.pipeline.parent().unwrap_or(Path::new(""));
    let environment = environment::load(folder, config.environment.as_deref())?;
    let pipeline = file::load(&config.pipeline, &environment)?;
    let store = LocalStore::open(&config.store, clock.clone()).map_err(Error::Store)?;
    let id = config.pipeline_id.clone();
    let opened = IngestConfig::open(pipeline, &environment, variable, id, Arc::new(store), clock);
    Ingest::new(Box::pin(opened).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(changes: &[(&str, &str)]) -> Result<Config, Vec<String>> {
        let get = |name: &str| {
            let set = [
                ("FRAZIL_STORE", "file:///data/frazil"),
                ("FRAZIL_PIPELINE", "/var/task/pipelines/people.toml"),
                ("FRAZIL_PIPELINE_ID", "people-00ff00ff"),
            ];
            let found = changes.iter().chain(&set).find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
            found.or_else(|| SET_BY_LAMBDA.contains(&name).then(|| "x".to_owned())).filter(|v| !v.is_empty())
        };
        Config::parse(&get).map_err(|faults| faults.0.into_iter().map(|f| f.name).collect())
    }

    #[test]
    fn settings_are_read_whole_or_refused_by_name() {
        let config = parse(&[("FRAZIL_ENV", "prod")]).unwrap();
        assert_eq!(config.store, Path::new("/data/frazil"));
        assert_eq!(config.pipeline_id.as_str(), "people-00ff00ff");
        assert_eq!((config.environment.as_deref(), config.log.level.as_str()), (Some("prod"), "info"));
        let check = |changes: &[(&str, &str)], names: &[&str]| {
            assert_eq!(parse(changes).unwrap_err(), names, "{changes:?}");
        };
        check(&[("FRAZIL_STORE", "")], &["FRAZIL_STORE"]);
        check(&[("FRAZIL_STORE", "s3://bucket/x")], &["FRAZIL_STORE"]);
        check(&[("FRAZIL_STORE", "file://relative")], &["FRAZIL_STORE"]);
        check(&[("FRAZIL_STORE", "/data")], &["FRAZIL_STORE"]);
        check(
            &[
                ("AWS_LAMBDA_RUNTIME_API", ""),
                ("FRAZIL_STORE", "/data"),
                ("FRAZIL_PIPELINE", ""),
                ("FRAZIL_PIPELINE_ID", "people"),
                ("FRAZIL_LOG_FORMAT", "xml"),
            ],
            &["AWS_LAMBDA_RUNTIME_API", "FRAZIL_STORE", "FRAZIL_PIPELINE", "FRAZIL_PIPELINE_ID", "FRAZIL_LOG_FORMAT"],
        );
    }
}
