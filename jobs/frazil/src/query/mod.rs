//! SQL over the catalog's tables. The only user of DataFusion: nothing else in frazil needs an engine.
//!
//! Entry point: [`Engine::ask`]. Only statements that read are planned; files, URLs and settings are out of reach.

mod predicate;
mod provider;

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use futures::StreamExt;
use model::failure::Kind;

use crate::manners::failure::Failure;
use crate::tables::Tables;

/// The catalog's name in SQL; the same as in the SQL catalog's own rows.
const CATALOG: &str = "frazil";
/// What sorts, joins and aggregations may hold before they spill or give up: a laptop's share, not its all.
const MEMORY_BYTES_MAX: usize = 2 * 1024 * 1024 * 1024;
/// A statement longer than this was not typed by a person.
const SQL_BYTES_MAX: usize = 64 * 1024;
/// Each operator may nest the plan one deeper (`1 + 1 + 1 …`), and planners recurse: with the stack a query's thread has,
/// this many leave each level more than 64 KiB.
const OPERATORS_MAX: usize = 1000;
/// A session over one catalog.
pub(crate) struct Engine {
    context: SessionContext,
    names: Arc<provider::Names>,
}

/// The rows of one statement, as they are computed.
pub(crate) struct Answer {
    stream: SendableRecordBatchStream,
    schema: SchemaRef,
}

/// A failure of ours on its way through the engine.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.message)]
struct Carried(Failure);

fn carried(failure: Failure) -> DataFusionError {
    DataFusionError::External(Box::new(Carried(failure)))
}

impl Engine {
    /// Lists the catalog's tables; none of them is read yet.
    pub(crate) async fn open(tables: Tables) -> Result<Self, Failure> {
        let names = Arc::new(provider::Names::list(tables).await?);
        let mut config = SessionConfig::new()
            // The command line runs on one thread: more partitions would only queue behind one another.
            .with_target_partitions(1)
            .with_information_schema(true)
            .with_create_default_catalog_and_schema(false);
        // A table may be named without its namespace where there is only one.
        config = config.with_default_catalog_and_schema(CATALOG, names.only_namespace().unwrap_or("default"));
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_limit(MEMORY_BYTES_MAX, 1.0)
            .build_arc()
            .map_err(|e| failure(&e, &names))?;
        let context = SessionContext::new_with_config_rt(config, runtime);
        context.register_catalog(CATALOG, Arc::new(provider::Catalog::new(Arc::clone(&names))));
        Ok(Self { context, names })
    }

    /// Plans one statement that reads, and starts it.
    ///
    /// # Errors
    /// When it is not one statement, would change something, names what is not there, or can't be planned.
    pub(crate) async fn ask(&self, sql: &str) -> Result<Answer, Failure> {
        if sql.len() > SQL_BYTES_MAX {
            return Err(Failure::usage("query.sql", format!("the statement is longer than {SQL_BYTES_MAX} bytes"))
                .remedy("ask in several statements"));
        }
        if operators(sql) > OPERATORS_MAX {
            let message = format!("the statement has more than {OPERATORS_MAX} operators");
            return Err(Failure::usage("query.sql", message).remedy("an IN list is one operator, however long it is"));
        }
        let only_reads = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        let fault = |e| failure(&e, &self.names);
        let frame = self.context.sql_with_options(sql, only_reads).await.map_err(fault)?;
        let stream = frame.execute_stream().await.map_err(fault)?;
        let schema = stream.schema();
        Ok(Answer { stream, schema })
    }
}

impl Answer {
    /// The columns.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next rows, or the end.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>, Failure> {
        self.stream.next().await.transpose().map_err(|e| failure(&e, &provider::Names::default()))
    }
}

/// How many tokens of a statement could nest its plan one deeper: everything but names, values, commas and brackets. A
/// text that is no SQL has none; the parser says so.
fn operators(sql: &str) -> usize {
    let Ok(tokens) = Tokenizer::new(&GenericDialect {}, sql).tokenize() else { return 0 };
    let nests = |token: &&Token| match token {
        Token::Word(word) => word.keyword != Keyword::NoKeyword,
        Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::Whitespace(_)
        | Token::Comma
        | Token::Period
        | Token::LParen
        | Token::RParen
        | Token::SemiColon
        | Token::EOF => false,
        _ => true,
    };
    tokens.iter().filter(nests).count()
}

/// What the engine says, as the command line says it.
fn failure(error: &DataFusionError, names: &provider::Names) -> Failure {
    let root = error.find_root();
    if let DataFusionError::External(inner) = root
        && let Some(Carried(failure)) = inner.downcast_ref::<Carried>()
    {
        return failure.clone();
    }
    let text = root.strip_backtrace();
    let known = ["Error during planning: ", "Schema error: ", "SQL error: ", "Arrow error: ", "Execution error: "];
    let message = known.iter().find_map(|kind| text.strip_prefix(kind)).unwrap_or(&text).to_owned();
    match root {
        DataFusionError::SchemaError(schema, _) if matches!(**schema, SchemaError::FieldNotFound { .. }) => {
            Failure::usage("query.unknown_column", message).remedy("`DESCRIBE namespace.table` lists a table's columns")
        }
        DataFusionError::Plan(_) if message.contains("not found") && message.starts_with("table '") => {
            Failure::usage("query.unknown_table", message).remedy(names.listed())
        }
        DataFusionError::Plan(_) if message.contains("not supported: ") => Failure::usage(
            "query.read_only",
            format!("query only reads: {message}"),
        )
        .remedy(
            "ask with SELECT, WITH, VALUES, EXPLAIN, SHOW TABLES or DESCRIBE; an engine that writes can do the rest",
        ),
        DataFusionError::SQL(..) | DataFusionError::SchemaError(..) | DataFusionError::Plan(_) => {
            Failure::usage("query.sql", message)
                .remedy("mend the statement; `SHOW TABLES` and `DESCRIBE namespace.table` say what can be named in it")
        }
        DataFusionError::NotImplemented(_) => Failure::usage("query.not_supported", message)
            .remedy("say it in another way, or read the table with another engine"),
        DataFusionError::ResourcesExhausted(_) => {
            Failure::usage("query.too_large", message).remedy("select less: a narrower WHERE, fewer columns, a LIMIT")
        }
        // Division by zero, an overflow, a text that is no number: the statement meets data it does not fit.
        DataFusionError::ArrowError(..) | DataFusionError::Execution(_) => {
            Failure::new(Kind::Poison, "query.execution", message)
                .remedy("leave out the rows that it does not fit (WHERE), or use NULLIF or TRY_CAST")
        }
        DataFusionError::IoError(_) => Failure::new(Kind::Retry, "query.io", message),
        _ => Failure::new(Kind::Bug, "query.engine", message),
    }
}
