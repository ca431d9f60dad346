//! `frazil decode`: what a payload would become.

pub(crate) mod input;
mod key;
pub(crate) mod payload;

use std::io::Read;

use model::coverage::Filtered;
use serde::Serialize;

use crate::Session;
use crate::arguments::Decode;
use crate::environment;
use crate::manners::exit::Exit;
use crate::manners::failure::Failure;
use input::{Encoding, Record};
use payload::{Decoded, Reader};

/// Kafka's largest record, as brokers are set up at most (`message.max.bytes` of 100 MiB).
pub(crate) const PAYLOAD_BYTES_MAX: u64 = 100 * 1024 * 1024;
/// A line of such a payload in hexadecimal or base64, with what surrounds it.
const LINE_BYTES_MAX: u64 = 2 * PAYLOAD_BYTES_MAX + 64 * 1024;

/// The body of one payload's document. Its rows follow.
#[derive(Debug, Serialize)]
struct Body<'a, P> {
    /// Where the record stands, where that is known.
    #[serde(flatten)]
    place: Option<P>,
    /// Where its rows go, where there are many tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_letter: Option<DeadLetter<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    tombstone: bool,
    /// Whether it deletes the row of its key.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    deletes: bool,
    /// Whether that row stays, and is marked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    marks: bool,
    /// By what the record was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    filtered: Option<Filtered>,
}

#[derive(Debug, Serialize)]
struct DeadLetter<'a> {
    class: &'a str,
    path: &'a str,
    message: &'a str,
}

pub(crate) async fn run(arguments: &Decode, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let environment = environment::settings(session)?;
    let pipeline = environment::pipeline(&environment, arguments.named.pipeline.as_deref(), session)?;
    let mut reader = Reader::open(pipeline, &environment, session).await?;
    let mut beside = Record::default();
    if let Some(key) = &arguments.key_hex {
        beside.key = Some(input::hex(key).map_err(|e| e.at("--key-hex"))?);
    }
    for header in &arguments.header {
        let (name, value) = input::header(header)?;
        beside.headers.push((name.to_owned(), Some(value)));
    }
    let value = |bytes| Record { value: Some(bytes), ..beside.clone() };
    let encoding = match (&arguments.hex, &arguments.base64) {
        (Some(text), _) if text != "-" => {
            return one(&value(input::hex(text).map_err(|e| e.at("--hex"))?), &mut reader, session).await;
        }
        (_, Some(text)) if text != "-" => {
            return one(&value(input::base64(text).map_err(|e| e.at("--base64"))?), &mut reader, session).await;
        }
        (_, Some(_)) => Encoding::Base64,
        _ => Encoding::Hex,
    };
    if arguments.null {
        return one(&beside, &mut reader, session).await;
    }
    if let Some(path) = &arguments.file {
        return one(&value(file(&session.folder.join(path))?), &mut reader, session).await;
    }
    lines(encoding, &beside, &mut reader, session).await
}

fn file(path: &std::path::Path) -> Result<Vec<u8>, Failure> {
    let fault = |e: std::io::Error| Failure::io("decode.file", path.display().to_string(), &e);
    let mut bytes = Vec::new();
    std::fs::File::open(path).map_err(fault)?.take(PAYLOAD_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(fault)?;
    if bytes.len() as u64 > PAYLOAD_BYTES_MAX {
        return Err(Failure::usage("decode.file", "the file is larger than any Kafka record")
            .at(path.display().to_string())
            .remedy("give one record's value"));
    }
    Ok(bytes)
}

async fn one(record: &Record, reader: &mut Reader, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let decoded = reader.read(record, None).await?;
    if session.output.json() {
        document("decode", NOWHERE, &decoded, session)?;
    } else {
        match &decoded {
            Decoded::Rows { table, rows } => {
                if let Some(table) = table {
                    session.output.text(&format!("into {table}:"))?;
                }
                for row in rows {
                    let mut table = comfy_table::Table::new();
                    table.load_style(comfy_table::presets::NOTHING).add_rows(&row.cells);
                    session.output.text(&table.trim_fmt())?;
                }
            }
            other => session.output.text(&other.said())?,
        }
    }
    Ok(decoded.exit())
}

/// One answer a line, in the order of the lines. A line that is no payload is answered too, and the rest goes on. What
/// was said of key and headers holds for lines that say nothing of them.
async fn lines(
    encoding: Encoding,
    beside: &Record,
    reader: &mut Reader,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    let mut exit = Exit::Done;
    for number in 1_u64.. {
        let mut line = Vec::new();
        let taken = {
            use std::io::BufRead;
            let mut bounded = (&mut *session.stdin).take(LINE_BYTES_MAX);
            bounded.read_until(b'\n', &mut line).map_err(|e| Failure::io("decode.stdin", "stdin", &e))?
        };
        if taken == 0 || session.output.closed() {
            break;
        }
        if taken as u64 == LINE_BYTES_MAX {
            return Err(Failure::usage("decode.line", "the line is longer than any Kafka record")
                .at(format!("stdin:{number}"))
                .remedy("give one record's value a line"));
        }
        let text = line.trim_ascii();
        if text.is_empty() {
            continue;
        }
        match input::line(text, encoding) {
            Ok(mut record) => {
                if record.key.is_none() {
                    record.key.clone_from(&beside.key);
                }
                if record.headers.is_empty() {
                    record.headers.clone_from(&beside.headers);
                }
                let decoded = reader.read(&record, None).await?;
                document("decode", NOWHERE, &decoded, session)?;
                if decoded.exit() != Exit::Done && exit == Exit::Done {
                    exit = decoded.exit();
                }
            }
            Err(failure) => {
                let failure = failure.at(format!("stdin:{number}"));
                session.output.line_refused("decode", &failure)?;
                exit = failure.exit();
            }
        }
    }
    Ok(exit)
}

/// Payloads that were pasted stand nowhere.
const NOWHERE: Option<()> = None;

/// One payload's answer, as a line of JSON.
pub(crate) fn document(
    command: &'static str,
    place: Option<impl Serialize>,
    decoded: &Decoded,
    session: &mut Session<'_>,
) -> Result<(), Failure> {
    let (tombstone, deletes, marks) = (false, false, false);
    let mut body = Body { place, table: None, dead_letter: None, tombstone, deletes, marks, filtered: None };
    let rows = match decoded {
        Decoded::Rows { table, rows } => {
            body.table.clone_from(table);
            rows.as_slice()
        }
        Decoded::Tombstone => {
            body.tombstone = true;
            &[]
        }
        Decoded::Delete { marks } => {
            (body.tombstone, body.deletes, body.marks) = (true, true, *marks);
            &[]
        }
        Decoded::Filtered(why) => {
            body.filtered = Some(*why);
            &[]
        }
        Decoded::Dead { class, path, message } => {
            body.dead_letter = Some(DeadLetter { class, path, message });
            return session.output.line(command, &body);
        }
    };
    let mut json = vec![b'['];
    for (n, row) in rows.iter().enumerate() {
        if n > 0 {
            json.push(b',');
        }
        json.extend_from_slice(&row.json);
    }
    json.push(b']');
    session.output.document_with(command, &body, "rows", &json)
}
