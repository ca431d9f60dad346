//! `frazil init`: a pipeline file from a schema, from samples, a registry or a topic, checked before it stays.

mod connect;
mod inference;
mod kept;
mod samples;
mod schema;
#[cfg(feature = "kafka")]
mod topic;
mod trial;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use model::failure::Kind;
use pipeline::route;
use serde::Serialize;

use crate::Session;
use crate::arguments;
use crate::environment;
use crate::examination::{Examination, shown};
use crate::manners::exit::Exit;
use crate::manners::failure::Failure;

/// The namespace of a table whose name nobody gave.
const NAMESPACE: &str = "lake";

/// The document's body.
#[derive(Debug, Serialize)]
struct Body {
    /// The files that were written, or would be; the pipeline file first.
    files: Vec<PathBuf>,
    pipeline: String,
    table: String,
    /// What was guessed, a sentence each: to be looked at.
    guesses: Vec<String>,
    dry_run: bool,
    /// The pipeline file.
    #[serde(skip)]
    text: String,
}

/// What a pipeline file is made of.
#[derive(Debug, Default)]
struct Draft {
    format: &'static str,
    framing: String,
    /// The schema, as it is written behind `schema = `.
    schema: Option<String>,
    /// Further lines of `[table]`.
    table: Vec<String>,
    /// Lines of `[table.columns]`.
    columns: Vec<String>,
    /// Other files, by their path from the project's folder.
    files: Vec<(PathBuf, String)>,
    guesses: Vec<String>,
}

/// Where a pipeline goes.
struct Place {
    /// The project's folder.
    root: PathBuf,
    name: String,
    table: String,
    path: PathBuf,
}

pub(crate) async fn run(arguments: &arguments::Init, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let environment = environment::settings(session)?;
    let place = place(arguments, &environment, session)?;
    let framing = || arguments.framing.clone();
    let draft = match (&arguments.schema, &arguments.samples) {
        (Some(file), _) => {
            let file = environment::absolute(&session.folder, file)?;
            schema::draft(&file, &place.root, arguments.message.as_deref(), framing())?
        }
        (None, Some(path)) => samples::draft(path, &place.name, framing(), session)?,
        #[cfg(feature = "kafka")]
        (None, None) if arguments.from_topic => {
            Box::pin(topic::draft(arguments, &place.name, &environment, session)).await?
        }
        (None, None) => Box::pin(kept::draft(arguments, framing(), &environment, session)).await?,
    };
    let text = text(&arguments.topic, &draft, &place.table);
    let others = draft.files.iter().map(|(path, text)| (place.root.join(path), text.as_str()));
    let files: Vec<(PathBuf, &str)> = std::iter::once((place.path.clone(), text.as_str())).chain(others).collect();
    let mut made = Made::default();
    let written = files.iter().try_for_each(|(path, text)| made.file(path, text));
    let faults = match written {
        Ok(()) => checked(&place.path, session).await,
        Err(failure) => Err(failure),
    };
    if arguments.dry_run || !matches!(&faults, Ok(faults) if faults.is_empty()) {
        made.undo()?;
    }
    if let Some(first) = faults.as_ref().map_err(Failure::clone)?.first() {
        let lines: Vec<String> = faults.iter().flatten().map(ToString::to_string).collect();
        return Err(Failure::usage(first.code, format!("the file would have faults:\n{}", lines.join("\n")))
            .at(shown(&place.path, session).display().to_string())
            .remedy("see what is typed here and what `frazil.toml` says; nothing was written"));
    }
    let body = Body {
        files: files.iter().map(|(path, _)| shown(path, session)).collect(),
        pipeline: place.name,
        table: place.table,
        guesses: draft.guesses,
        dry_run: arguments.dry_run,
        text: text.clone(),
    };
    session.output.reply("init", &body, human)?;
    Ok(Exit::Done)
}

fn place(
    arguments: &arguments::Init,
    environment: &pipeline::Environment,
    session: &Session<'_>,
) -> Result<Place, Failure> {
    let folder = environment.pipeline_folders(&session.folder).into_iter().next().unwrap_or_default();
    let folder = environment::absolute(&session.folder, &folder)?;
    let spelled = route::spelled(&arguments.topic).map(|name| name.trim_start_matches('_').to_owned());
    let table = match (&arguments.table, spelled) {
        (Some(table), _) => table.clone(),
        (None, Some(name)) => format!("{NAMESPACE}.{name}"),
        (None, None) => {
            return Err(Failure::usage("init.table", format!("`{}` can't be a table's name", arguments.topic))
                .remedy("name the table: --table namespace.name"));
        }
    };
    let name = arguments.name.clone().unwrap_or_else(|| table.rsplit('.').next().unwrap_or_default().to_owned());
    // Whatever else it may not be, the check says; this must not lead out of the folder.
    if !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')) {
        return Err(Failure::usage("init.name", format!("`{name}` can't be a pipeline's name"))
            .remedy("give it one of lower-case letters, digits, `-` and `_`: --name NAME"));
    }
    let path = folder.join(format!("{name}.toml"));
    Ok(Place { root: folder.parent().unwrap_or(&session.folder).to_owned(), name, table, path })
}

/// A TOML string; JSON's are such, but for one character that TOML wants escaped.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// A pipeline file for people to go on with.
fn text(topic: &str, draft: &Draft, table: &str) -> String {
    let schema = draft.schema.as_ref().map_or_else(String::new, |schema| format!("schema = {schema}\n"));
    let mut text = format!(
        "[source]\n\
         topics = [{}]\n\
         # What offsets are counted under where an event names no cluster. Once rows are in the table it stays as it is.\n\
         name = \"kafka\"\n\
         \n\
         [value]\n\
         format = \"{}\"\n\
         framing = {}\n\
         {schema}\
         \n\
         [table]\n\
         name = {}\n\
         # dedup leaves out rows whose key is there: mode = \"dedup\", primary_key = [\"id\"]\n\
         mode = \"append\"\n\
         # partition_by = [\"day(_ingested_at)\"]\n",
        quoted(topic),
        draft.format,
        quoted(&draft.framing),
        quoted(table)
    );
    for line in &draft.table {
        text.push_str(line);
        text.push('\n');
    }
    if !draft.columns.is_empty() {
        text.push_str("\n[table.columns]\n");
        for line in &draft.columns {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// The files and folders that were made, outer folders first.
#[derive(Debug, Default)]
struct Made {
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

impl Made {
    /// Writes a file, never over one that is there.
    fn file(&mut self, path: &Path, text: &str) -> Result<(), Failure> {
        let fault = |e: std::io::Error| Failure::io("init.file", path.display().to_string(), &e);
        let missing: Vec<&Path> = path.ancestors().skip(1).take_while(|folder| !folder.exists()).collect();
        for folder in missing.into_iter().rev().filter(|folder| !folder.as_os_str().is_empty()) {
            match std::fs::create_dir(folder) {
                Ok(()) => self.folders.push(folder.to_owned()),
                // Somebody else's, then.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(fault(error)),
            }
        }
        match std::fs::File::create_new(path) {
            Ok(mut file) => {
                self.files.push(path.to_owned());
                std::io::Write::write_all(&mut file, text.as_bytes()).map_err(fault)
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                Err(Failure::new(Kind::Misconfigured, "init.exists", "there is a file of this name already")
                    .at(path.display().to_string())
                    .remedy("choose another --name, or move the file away"))
            }
            Err(error) => Err(fault(error)),
        }
    }

    /// Takes all of it away again. A folder that somebody put something into meanwhile stays.
    fn undo(self) -> Result<(), Failure> {
        let fault = |path: &Path, e: &std::io::Error| Failure::io("init.file", path.display().to_string(), e);
        for path in &self.files {
            std::fs::remove_file(path).map_err(|e| fault(path, &e))?;
        }
        for folder in self.folders.iter().rev() {
            match std::fs::remove_dir(folder) {
                Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty) => {
                    return Err(fault(folder, &error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

async fn checked(path: &Path, session: &Session<'_>) -> Result<Vec<pipeline::Fault>, Failure> {
    let named = path.display().to_string();
    Ok(Examination::of(Some(&named), false, false, session).await?.faults())
}

fn human(body: &Body) -> String {
    if body.dry_run {
        return body.text.clone();
    }
    let files: Vec<String> = body.files.iter().map(|path| path.display().to_string()).collect();
    let mut lines = vec![format!("wrote {}: the table {}", files.join(", "), body.table)];
    if !body.guesses.is_empty() {
        lines.push("guessed, so look at it:".to_owned());
        lines.extend(body.guesses.iter().map(|guess| format!("  {guess}")));
    }
    lines.push(format!("`frazil plan {0}` shows its columns; `frazil run {0} -b HOST:PORT` fills it", body.pipeline));
    lines.join("\n")
}
