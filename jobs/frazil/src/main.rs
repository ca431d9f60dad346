//! Wires the process to the command line.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use frazil::host::{Host, Signals};
use frazil::manners::exit::Exit;
use model::clock::SystemClock;
use model::id::SystemIds;
use runtime::log;
use runtime::settings::{Settings, environment};

fn main() -> ExitCode {
    allocator::give_back_soon();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let signals = Signals::default();
    watch_signals(arguments.clone(), signals.clone());
    let host = Host {
        stdin: &mut std::io::BufReader::new(std::io::stdin()),
        stdout: &mut std::io::stdout(),
        stderr: &mut std::io::stderr(),
        terminal: std::io::stderr().is_terminal(),
        folder: std::env::current_dir().unwrap_or_else(|_| PathBuf::from(".")),
        clock: Arc::new(SystemClock),
        ids: Arc::new(SystemIds),
        variable: environment,
        log: start_log,
        signals,
    };
    frazil::run_on(host, arguments).into()
}

/// Flags win over `FRAZIL_LOG`; without either only warnings are shown.
fn start_log(level: Option<&str>) {
    let mut settings = Settings::new(&environment);
    let mut config = log::Config::parse(&mut settings, log::Format::Text);
    if let Some(level) = level {
        config.level = level.to_owned();
    } else if settings.optional("FRAZIL_LOG").is_none() {
        config.level = "warn".to_owned();
    }
    log::init(&config);
}

/// How long a command that has its answer may take to end.
const ENDING: Duration = Duration::from_secs(10);

/// Ctrl-C or a SIGTERM (a scheduler's, a container's) ends the process at once, wherever it is: everything stored is stored
/// whole, and a fold or an ingest that was cut off is taken up by the next. A thread waits for it, since the work itself may
/// be far from any point where it could look. A command that ends by itself is asked first, and ended at the second signal.
fn watch_signals(arguments: Vec<OsString>, ours: Signals) {
    let Ok(mut signals) =
        signal_hook::iterator::Signals::new([signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM])
    else {
        // Then the signal's default stands: the process ends, without a last word.
        return;
    };
    std::thread::spawn(move || {
        for _ in signals.forever() {
            if ours.ask() {
                continue;
            }
            let exit = if ours.claim() {
                frazil::interrupted(&arguments, &mut std::io::stdout(), &mut std::io::stderr())
            } else {
                // The command has answered: what it did is done, and it is ending.
                std::thread::park_timeout(ENDING);
                Exit::Interrupted
            };
            #[expect(clippy::disallowed_methods, reason = "the work is on another thread, which nothing can stop")]
            std::process::exit(i32::from(exit.code()));
        }
    });
}
