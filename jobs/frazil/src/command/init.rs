//! `frazil init`: a pipeline file from a schema, checked before it stays.

use std::path::{Path, PathBuf};

use codec::payload;
use model::failure::Kind;
use pipeline::resolved::Schema;
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
    /// The files that were written, or would be.
    files: Vec<PathBuf>,
    pipeline: String,
    table: String,
    dry_run: bool,
    /// The pipeline file.
    #[serde(skip)]
    text: String,
}

/// How a schema's file is named in a pipeline file.
struct Named {
    format: &'static str,
    /// The key that holds its path.
    key: &'static str,
    message: Option<String>,
}

pub(crate) async fn run(arguments: &arguments::Init, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let environment = environment::settings(session)?;
    let file = environment::absolute(&session.folder, &arguments.schema)?;
    let named = named(&file, arguments.message.as_deref())?;
    let folder = environment.pipeline_folders(&session.folder).into_iter().next().unwrap_or_default();
    let folder = environment::absolute(&session.folder, &folder)?;
    let root = folder.parent().unwrap_or(&session.folder);
    let path = file.strip_prefix(root).unwrap_or(&file);
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
    let made = folder.join(format!("{name}.toml"));
    let text = text(arguments, &named, path, &table);
    let body =
        Body { files: vec![shown(&made, session)], pipeline: name.clone(), table, dry_run: arguments.dry_run, text };
    write(&made, &body.text)?;
    let faults = checked(&made, session).await;
    if arguments.dry_run || !matches!(&faults, Ok(faults) if faults.is_empty()) {
        std::fs::remove_file(&made).map_err(|e| Failure::io("init.file", made.display().to_string(), &e))?;
    }
    let faults = faults?;
    if let Some(first) = faults.first() {
        let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
        return Err(Failure::usage(first.code, format!("the file would have faults:\n{}", lines.join("\n")))
            .at(shown(&made, session).display().to_string())
            .remedy("see what is typed here and what `frazil.toml` says; nothing was written"));
    }
    session.output.reply("init", &body, human)?;
    Ok(Exit::Done)
}

/// What kind of schema a file is, by its ending; of protobuf the message too, where there is only one.
fn named(file: &Path, message: Option<&str>) -> Result<Named, Failure> {
    let at = || file.display().to_string();
    let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let (format, key) = match ending {
        "proto" => ("protobuf", "proto"),
        "desc" | "pb" | "binpb" => ("protobuf", "descriptor"),
        "avsc" => ("avro", "avsc"),
        "json" => ("json", "json_schema"),
        _ => {
            return Err(Failure::usage("init.schema", "what kind of schema this is does not show")
                .at(at())
                .remedy("give a .proto, a .desc (a FileDescriptorSet), an .avsc, or a JSON Schema as .json"));
        }
    };
    if format != "protobuf" {
        if message.is_some() {
            return Err(Failure::usage("init.message", "--message is for protobuf alone").at(at()));
        }
        return Ok(Named { format, key, message: None });
    }
    let path = file.to_owned();
    let wanted = message.unwrap_or_default().to_owned();
    let schema = match key {
        "proto" => Schema::Proto { path, message: wanted },
        _ => Schema::Descriptor { path, message: wanted },
    };
    let message = match payload::Schema::load(&schema) {
        Ok(schema) => schema.name().to_owned(),
        Err(codec::Error::UnknownMessage { available, .. }) if message.is_none() => match available.as_slice() {
            [only] => only.clone(),
            [] => return Err(Failure::usage("init.message", "it has no message").at(at())),
            several => {
                return Err(Failure::usage("init.message", format!("it has several messages: {}", several.join(", ")))
                    .at(at())
                    .remedy("say which one the topic's values are: --message NAME"));
            }
        },
        Err(error) => return Err(Failure::of(error.kind(), "init.schema", &error).at(at())),
    };
    Ok(Named { format, key, message: Some(message) })
}

/// A pipeline file for people to go on with.
fn text(arguments: &arguments::Init, named: &Named, path: &Path, table: &str) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let (topic, framing) = (quoted(&arguments.topic), quoted(&arguments.framing));
    let message = named.message.as_deref().map_or_else(String::new, |m| format!(", message = {}", quoted(m)));
    let schema = format!("{{ {} = {}{message} }}", named.key, quoted(&path.display().to_string()));
    format!(
        "[source]\n\
         topics = [{topic}]\n\
         # What offsets are counted under where an event names no cluster. Once rows are in the table it stays as it is.\n\
         name = \"kafka\"\n\
         \n\
         [value]\n\
         format = \"{}\"\n\
         framing = {framing}\n\
         schema = {schema}\n\
         \n\
         [table]\n\
         name = {}\n\
         # dedup leaves out rows whose key is there: mode = \"dedup\", primary_key = [\"id\"]\n\
         mode = \"append\"\n\
         # partition_by = [\"day(_ingested_at)\"]\n",
        named.format,
        quoted(table)
    )
}

/// Never over a file that is there.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let fault = |e: std::io::Error| Failure::io("init.file", path.display().to_string(), &e);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(fault)?;
    }
    match std::fs::File::create_new(path) {
        Ok(mut file) => std::io::Write::write_all(&mut file, text.as_bytes()).map_err(fault),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(Failure::new(Kind::Misconfigured, "init.exists", "there is a file of this name already")
                .at(path.display().to_string())
                .remedy("choose another --name, or move the file away"))
        }
        Err(error) => Err(fault(error)),
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
    format!(
        "wrote {}: the table {}\n`frazil plan {2}` shows its columns; `frazil run {2} -b HOST:PORT` fills it",
        files.join(", "),
        body.table,
        body.pipeline
    )
}
