//! The command line: every job, function and tool of frazil as a subcommand of one binary.
//!
//! Entry points: [`run`] for a process-like call with two streams, [`run_on`] for one with everything given. Both parse
//! the arguments, run the command, and leave its answer on stdout: text, or under `--json` one document. [`manners`]
//! holds what all commands share; [`generator`] makes the demo's events.
//!
//! Commands reach the outside through [`host::Host`] only, and never print: everything goes through
//! [`manners::output::Output`].

pub mod arguments;
mod brokers;
mod command;
mod cost;
#[cfg(feature = "kafka")]
mod encoding;
mod environment;
mod events;
mod examination;
pub mod generator;
pub mod host;
#[cfg(feature = "kafka")]
mod kafka;
pub mod manners;
#[cfg(feature = "kafka")]
mod mapping;
mod moment;
#[cfg(feature = "kafka")]
mod msk;
#[cfg(feature = "kafka")]
mod places;
mod plan;
mod query;
mod remote;
mod tables;
mod value;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Parser;
use clap::error::ErrorKind;
use model::clock::SystemClock;
use model::failure::Kind;
use model::id::SystemIds;

use arguments::{Arguments, Command, Glance};
use host::{Host, Signals};
use manners::exit::Exit;
use manners::failure::Failure;
use manners::output::Output;
use manners::progress::Progress;
use remote::Remote;

/// Runs a command line, program name first, in the current folder with an empty stdin.
pub fn run<A: Into<OsString>>(
    arguments: impl IntoIterator<Item = A>,
    stdout: &mut (dyn Write + Send),
    stderr: &mut (dyn Write + Send),
) -> Exit {
    let mut stdin = std::io::empty();
    let host = Host {
        stdin: &mut stdin,
        stdout,
        stderr,
        terminal: false,
        folder: std::env::current_dir().unwrap_or_else(|_| PathBuf::from(".")),
        clock: Arc::new(SystemClock),
        ids: Arc::new(SystemIds),
        variable: runtime::settings::environment,
        log: |_| {},
        signals: Signals::default(),
    };
    run_on(host, arguments)
}

/// Runs a command line, program name first, on a host.
pub fn run_on<A: Into<OsString>>(host: Host<'_>, arguments: impl IntoIterator<Item = A>) -> Exit {
    let raw: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    let glance = Glance::at(&raw);
    let parsed = match Arguments::try_parse_from(&raw) {
        Ok(parsed) => parsed,
        Err(error) => {
            let mut output = Output::new(host.stdout, host.stderr, glance.json, false);
            return misunderstood(&error, &glance, &mut output);
        }
    };
    let Arguments { global, command } = parsed;
    (host.log)(match (global.quiet, global.verbose) {
        (true, _) => Some("error"),
        (false, 0) => None,
        (false, 1) => Some("info"),
        (false, _) => Some("debug"),
    });
    let output = Output::new(host.stdout, host.stderr, global.json, global.quiet).with_signals(host.signals.clone());
    let mut session = Session {
        output,
        stdin: host.stdin,
        progress: Progress::new(host.terminal && !global.quiet),
        terminal: host.terminal,
        folder: host.folder,
        clock: host.clock,
        ids: host.ids,
        variable: host.variable,
        env: global.env,
        dir: global.dir,
        remote: Remote::default(),
        #[cfg(feature = "kafka")]
        signals: host.signals,
    };
    match perform(&command, &mut session) {
        Ok(exit) => exit,
        Err(failure) => {
            session.output.fail(Some(command.name()), &failure);
            failure.exit()
        }
    }
}

/// The stack of a query's thread: reserved, and used only as deep as the statement nests.
const QUERY_STACK_BYTES: usize = 64 * 1024 * 1024;

/// What a running command works with.
struct Session<'a> {
    output: Output<'a>,
    stdin: &'a mut (dyn std::io::BufRead + Send),
    progress: Progress,
    /// Whether a person can be asked.
    terminal: bool,
    folder: PathBuf,
    clock: Arc<dyn model::clock::Clock>,
    ids: Arc<dyn model::id::Ids>,
    variable: fn(&str) -> Option<String>,
    env: Option<String>,
    dir: Option<PathBuf>,
    remote: Remote,
    #[cfg(feature = "kafka")]
    signals: Signals,
}

fn perform(command: &Command, session: &mut Session<'_>) -> Result<Exit, Failure> {
    // One thread: a command does one thing after another, and blocking file calls have threads of their own.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::of(Kind::Retry, "runtime.start", &e))?;
    match command {
        Command::Demo(arguments) => runtime.block_on(command::demo::run(arguments, session)),
        Command::Init(arguments) => runtime.block_on(command::init::run(arguments, session)),
        Command::Check(arguments) => runtime.block_on(command::check::run(arguments, session)),
        Command::Plan(arguments) => runtime.block_on(command::plan::run(arguments, session)),
        Command::Test(arguments) => runtime.block_on(command::test::run(arguments, session)),
        Command::Schema(arguments) => command::schema::run(arguments, session),
        Command::Ingest(arguments) => runtime.block_on(command::ingest::run(arguments, session)),
        Command::Fold(arguments) => runtime.block_on(command::fold::run(arguments, session)),
        Command::Decode(arguments) => runtime.block_on(command::decode::run(arguments, session)),
        Command::Maintain(arguments) => runtime.block_on(command::maintain::run(arguments, session)),
        Command::Pause(arguments) => runtime.block_on(command::pause::run(arguments, session)),
        Command::Unpause(arguments) => runtime.block_on(command::pause::lift(arguments, session)),
        Command::Rollback(arguments) => runtime.block_on(command::rewind::rollback(arguments, session)),
        Command::Recover(arguments) => runtime.block_on(command::rewind::recover(arguments, session)),
        #[cfg(feature = "kafka")]
        Command::Run(arguments) => runtime.block_on(command::run::run(arguments, session)),
        #[cfg(feature = "kafka")]
        Command::Backfill(arguments) => runtime.block_on(command::backfill::run(arguments, session)),
        #[cfg(feature = "kafka")]
        Command::Tail(arguments) => runtime.block_on(command::tail::run(arguments, session)),
        #[cfg(feature = "kafka")]
        Command::Produce(arguments) => runtime.block_on(command::produce::run(arguments, session)),
        Command::Cost(arguments) => command::cost::run(arguments, session),
        Command::Size(arguments) => command::size::run(arguments, session),
        Command::ResetSource(arguments) => runtime.block_on(command::rewind::reset(arguments, session)),
        // Planners recurse once per operator of a statement; how many there may be is bounded with this stack in mind.
        Command::Query(arguments) => std::thread::scope(|scope| {
            let work = || runtime.block_on(command::query::run(arguments, session));
            let thread = std::thread::Builder::new().stack_size(QUERY_STACK_BYTES).spawn_scoped(scope, work);
            let thread = thread.map_err(|e| Failure::of(Kind::Retry, "runtime.start", &e))?;
            thread
                .join()
                .unwrap_or_else(|_| Err(Failure::new(Kind::Bug, "query.engine", "the query's thread panicked")))
        }),
    }
}

/// Answers a command line that clap did not take: help and version are answers, the rest are usage errors.
fn misunderstood(error: &clap::Error, glance: &Glance, output: &mut Output<'_>) -> Exit {
    let rendered = error.render().to_string();
    match error.kind() {
        kind @ (ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            let said = match kind {
                ErrorKind::DisplayVersion => output.about(None, "version", env!("CARGO_PKG_VERSION"), &rendered),
                _ => output.about(glance.command.as_deref(), "help", &rendered, &rendered),
            };
            match said {
                Ok(()) => Exit::Done,
                Err(failure) => {
                    output.fail(glance.command.as_deref(), &failure);
                    failure.exit()
                }
            }
        }
        _ if glance.json => {
            let message = rendered.strip_prefix("error: ").unwrap_or(&rendered).trim_end();
            let first = message.split("\n\n").next().unwrap_or(message);
            let failure = Failure::usage("usage", first).remedy(match &glance.command {
                Some(command) => format!("frazil {command} --help"),
                None => "frazil --help".to_owned(),
            });
            output.fail(glance.command.as_deref(), &failure);
            Exit::Usage
        }
        _ => {
            output.warn(rendered.trim_end());
            Exit::Usage
        }
    }
}

/// The answer to Ctrl-C and to SIGTERM, on the process's own streams: whatever the command was doing, what it stored is whole.
pub fn interrupted(arguments: &[OsString], stdout: &mut (dyn Write + Send), stderr: &mut (dyn Write + Send)) -> Exit {
    let glance = Glance::at(arguments);
    let failure = Failure::interrupted("interrupted; what was stored is whole");
    Output::new(stdout, stderr, glance.json, false).fail(glance.command.as_deref(), &failure);
    failure.exit()
}
