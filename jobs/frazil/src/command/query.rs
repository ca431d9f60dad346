//! `frazil query`: SQL over the catalog's tables.

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use comfy_table::{CellAlignment, Table};
use model::failure::Kind;
use serde::Serialize;

use crate::Session;
use crate::arguments::{Format, Query};
use crate::environment;
use crate::manners::exit::Exit;
use crate::manners::failure::Failure;
use crate::query::{Answer, Engine};
use crate::tables::Tables;
use crate::value;

/// A table for people ends here: nobody reads more, and its columns can only be sized once all rows are there.
const TABLE_ROWS_MAX: usize = 1000;
/// One document is held in memory until it is known to be whole. Beyond this, a stream is the right form.
const DOCUMENT_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Streams are written in pieces of about this size.
const CHUNK_BYTES: usize = 64 * 1024;

/// One column of the answer.
#[derive(Debug, Serialize)]
struct Column {
    name: String,
    r#type: String,
}

/// The document's body up to its rows, which are JSON already and follow it.
#[derive(Debug, Serialize)]
struct Body {
    columns: Vec<Column>,
}

pub(crate) async fn run(arguments: &Query, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let json = session.output.json();
    let format = match (arguments.format, json) {
        (None, false) => Format::Table,
        (None, true) => Format::Json,
        (Some(Format::Table | Format::Csv), true) => {
            return Err(Failure::usage("query.format", "`--json` with `--format table` or `--format csv`")
                .remedy("leave one of them out"));
        }
        (Some(format), _) => format,
    };
    let environment = environment::settings(session)?;
    let engine = Engine::open(Tables::existing(&environment, session).await?).await?;
    let answer = engine.ask(&arguments.sql).await?;
    match format {
        Format::Table => table(answer, session).await,
        Format::Json => document(answer, session).await,
        Format::Jsonl => lines(answer, session).await,
        Format::Csv => csv(answer, session).await,
    }?;
    Ok(Exit::Done)
}

fn unwritable(error: &value::Error) -> Failure {
    let kind = match error {
        value::Error::Ambiguous(_) => Kind::Misconfigured,
        _ => Kind::Bug,
    };
    let remedy = matches!(error, value::Error::Ambiguous(_)).then_some("name one of them with AS");
    Failure::of(kind, "query.value", error).remedy_if(remedy)
}

fn columns(schema: &Schema) -> Vec<Column> {
    schema.fields().iter().map(|f| Column { name: f.name().clone(), r#type: value::type_name(f) }).collect()
}

async fn document(mut answer: Answer, session: &mut Session<'_>) -> Result<(), Failure> {
    value::check_names(answer.schema()).map_err(|e| unwritable(&e))?;
    let columns = columns(answer.schema());
    let mut rows = vec![b'['];
    while let Some(batch) = answer.next().await? {
        for n in 0..batch.num_rows() {
            if rows.len() > 1 {
                rows.push(b',');
            }
            value::row(&batch, n, &mut rows).map_err(|e| unwritable(&e))?;
            if rows.len() > DOCUMENT_BYTES_MAX {
                let most = DOCUMENT_BYTES_MAX >> 20;
                return Err(Failure::usage("query.too_large", format!("the answer is larger than {most} MiB"))
                    .remedy("add a LIMIT, or stream it: --format jsonl or --format csv"));
            }
        }
    }
    rows.push(b']');
    session.output.document_with("query", &Body { columns }, "rows", &rows)
}

async fn lines(mut answer: Answer, session: &mut Session<'_>) -> Result<(), Failure> {
    value::check_names(answer.schema()).map_err(|e| unwritable(&e))?;
    let mut out = Vec::with_capacity(CHUNK_BYTES * 2);
    while let Some(batch) = answer.next().await? {
        for n in 0..batch.num_rows() {
            value::row(&batch, n, &mut out).map_err(|e| unwritable(&e))?;
            out.push(b'\n');
            if out.len() >= CHUNK_BYTES {
                session.output.bytes(&out)?;
                out.clear();
            }
        }
        if session.output.closed() {
            return Ok(());
        }
    }
    session.output.bytes(&out)
}

async fn csv(mut answer: Answer, session: &mut Session<'_>) -> Result<(), Failure> {
    let mut out = Vec::with_capacity(CHUNK_BYTES * 2);
    for (n, field) in answer.schema().fields().iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        cell(Some(field.name()), &mut out);
    }
    out.extend_from_slice(b"\r\n");
    while let Some(batch) = answer.next().await? {
        for n in 0..batch.num_rows() {
            for (c, (field, column)) in batch.schema_ref().fields().iter().zip(batch.columns()).enumerate() {
                if c > 0 {
                    out.push(b',');
                }
                let text = value::text(field, column.as_ref(), n).map_err(|e| unwritable(&e))?;
                cell(text.as_deref(), &mut out);
            }
            out.extend_from_slice(b"\r\n");
            if out.len() >= CHUNK_BYTES {
                session.output.bytes(&out)?;
                out.clear();
            }
        }
        if session.output.closed() {
            return Ok(());
        }
    }
    session.output.bytes(&out)
}

/// One CSV cell: null is nothing at all, an empty text is `""`.
fn cell(text: Option<&str>, out: &mut Vec<u8>) {
    let Some(text) = text else { return };
    if text.is_empty() || text.contains(['"', ',', '\n', '\r']) {
        out.push(b'"');
        out.extend_from_slice(text.replace('"', "\"\"").as_bytes());
        out.push(b'"');
    } else {
        out.extend_from_slice(text.as_bytes());
    }
}

async fn table(mut answer: Answer, session: &mut Session<'_>) -> Result<(), Failure> {
    let schema = answer.schema().clone();
    let mut rows = Rows::new(&schema);
    'all: while let Some(batch) = answer.next().await? {
        for n in 0..batch.num_rows() {
            if rows.count == TABLE_ROWS_MAX {
                rows.more = true;
                break 'all;
            }
            rows.add(&batch, n)?;
        }
    }
    session.output.text(&rows.table.to_string())?;
    let count = rows.count;
    if rows.more {
        session.output.note(&format!("the first {count} rows; --format csv or --format jsonl gives all of them"));
    } else {
        session.output.note(&format!("{count} {}", if count == 1 { "row" } else { "rows" }));
    }
    Ok(())
}

struct Rows {
    table: Table,
    count: usize,
    more: bool,
}

impl Rows {
    fn new(schema: &SchemaRef) -> Self {
        let mut table = Table::new();
        table.load_style(comfy_table::presets::UTF8_BORDERS_ONLY);
        table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
        table.set_header(schema.fields().iter().map(|f| f.name().clone()));
        for (n, field) in schema.fields().iter().enumerate() {
            if field.data_type().is_numeric()
                && let Some(column) = table.column_mut(n)
            {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        Self { table, count: 0, more: false }
    }

    fn add(&mut self, batch: &RecordBatch, n: usize) -> Result<(), Failure> {
        let mut cells = Vec::with_capacity(batch.num_columns());
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            let text = value::text(field, column.as_ref(), n).map_err(|e| unwritable(&e))?;
            cells.push(text.map_or_else(|| "NULL".to_owned(), |t| value::printable(&t)));
        }
        self.table.add_row(cells);
        self.count += 1;
        Ok(())
    }
}
