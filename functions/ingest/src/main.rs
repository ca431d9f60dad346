//! The ingest function: Kafka events from Lambda, staged objects into a store.

mod lambda;

use std::process::ExitCode;
use std::sync::Arc;

use ingest::config::{self, Config};
use model::clock::SystemClock;
use model::failure::Kind;
use runtime::{exit, log, settings};

/// Columns and pages are large, short-lived buffers: this allocator keeps their memory, where the system's would have the
/// kernel clear new pages for each.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let config = match Config::parse(&settings::environment) {
        Ok(config) => config,
        Err(faults) => {
            log::init(&log::Config { format: log::Format::Json, level: "info".to_owned() });
            tracing::error!(kind = faults.kind().as_str(), "the function can't start: {faults}");
            return exit::code(faults.kind());
        }
    };
    log::init(&config.log);
    // One invocation at a time: a single thread is enough, and starts sooner.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            tracing::error!("the function can't start: no event loop: {e}");
            return exit::code(Kind::Retry);
        }
    };
    let ingest = match runtime.block_on(config::open(&config, &settings::environment, Arc::new(SystemClock))) {
        Ok(ingest) => Arc::new(ingest),
        Err(e) => {
            tracing::error!(kind = e.kind().as_str(), "the function can't start: {e}");
            return exit::code(e.kind());
        }
    };
    match runtime.block_on(lambda::serve(ingest)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            tracing::error!("the runtime interface failed: {e}");
            exit::code(Kind::Retry)
        }
    }
}
