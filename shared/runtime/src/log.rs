//! The log: to stderr, as lines of JSON or of text. stdout belongs to the documents that a command answers with.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::settings::Settings;

/// How a line of the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line, for log services.
    Json,
    /// For people.
    Text,
}

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "json" => Ok(Self::Json),
            "text" => Ok(Self::Text),
            _ => Err("it must be `json` or `text`".to_owned()),
        }
    }
}

/// The log's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// How lines are written.
    pub format: Format,
    /// `error`, `warn`, `info`, `debug`, `trace`, or filters for single crates as `tracing` writes them
    /// (`info,ingest=debug`).
    pub level: String,
}

impl Config {
    /// From `FRAZIL_LOG` (level, `info` when unset) and `FRAZIL_LOG_FORMAT` (`json` or `text`).
    pub fn parse(settings: &mut Settings<'_>, format: Format) -> Self {
        let level = settings.checked("FRAZIL_LOG", |text| match EnvFilter::try_new(text) {
            Ok(_) => Ok(text.to_owned()),
            Err(e) => Err(e.to_string()),
        });
        let format = settings.parsed("FRAZIL_LOG_FORMAT").unwrap_or(format);
        Self { format, level: level.unwrap_or_else(|| "info".to_owned()) }
    }
}

/// Starts the log of this process. A second call changes nothing: the first one's settings stand.
pub fn init(config: &Config) {
    let filter = EnvFilter::try_new(&config.level).unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(filter);
    let started = match config.format {
        Format::Json => lines.json().flatten_event(true).with_current_span(false).try_init(),
        Format::Text => lines.with_ansi(std::io::stderr().is_terminal()).try_init(),
    };
    if started.is_err() {
        tracing::debug!("the log was started before; its settings stand");
    }
}
