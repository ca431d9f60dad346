//! `frazil plan`: what a pipeline comes to, and what would change.

use std::collections::BTreeSet;

use iceberg::spec::PartitionField;
use model::failure::Kind;
use pipeline::environment::{Environment, Location};
use pipeline::resolved::{MARK_COLUMNS, Mode, RECORD_COLUMNS, TableName};
use pipeline::{Fault, glob};
use serde::Serialize;

use crate::Session;
use crate::arguments;
use crate::environment;
use crate::examination::{Examination, Examinee, Resolved, shown};
use crate::manners::exit::Exit;
use crate::manners::failure::Failure;
use crate::plan::engines::{Engine, Reads};
use crate::plan::estimate::Estimate;
use crate::plan::live::{Change, Compared};
use crate::plan::permissions::Permissions;
use crate::plan::remarks::Remark;
use crate::plan::{ddl, engines, estimate, live, permissions, remarks};
use crate::tables::Tables;

/// The document's body.
#[derive(Debug, Default, Serialize)]
struct Body {
    env: String,
    pipeline: String,
    faults: Vec<Fault>,
    #[serde(flatten)]
    offline: Option<Offline>,
    live: Live,
    changes: Vec<Change>,
    /// Of many tables those that are known: met by folds, named by topics, or different from the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tables: Vec<OfTable>,
    warnings: Vec<Remark>,
}

/// One of many tables.
#[derive(Debug, Serialize)]
struct OfTable {
    table: String,
    mode: Mode,
    partition_spec: Vec<Field>,
    live: Live,
    changes: Vec<Change>,
}

/// What the files alone say.
#[derive(Debug, Serialize)]
struct Offline {
    table: String,
    mode: Mode,
    /// Of the file's content with its schemas.
    hash: String,
    columns: Vec<Column>,
    partition_spec: Vec<Field>,
    /// Spark SQL that makes the table.
    ddl: Option<String>,
    /// What Spark SQL can't say, where that is why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    ddl_lacks: Option<String>,
    merge: String,
    files: Estimate,
    engines: Vec<Engine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    permissions: Option<Permissions>,
}

/// A column of the table.
#[derive(Debug, Serialize)]
struct Column {
    name: String,
    r#type: String,
    required: bool,
    /// The field that it is made of.
    source: String,
}

/// A field of the partition spec.
#[derive(Debug, Serialize)]
struct Field {
    name: String,
    transform: String,
    source: String,
}

/// Whether the table could be looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum Live {
    /// There was a fault to mend first.
    #[default]
    NotLooked,
    Absent,
    Present {
        metadata_location: String,
        format_version: u8,
    },
    Unreachable {
        why: String,
    },
    /// Each of many tables by itself.
    Many,
}

pub(crate) async fn run(arguments: &arguments::Plan, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let examination = Examination::of(arguments.named.pipeline.as_deref(), false, true, session).await?;
    let mut faults = examination.faults();
    let environment = &examination.environment;
    let mut body = Body { env: environment.name.clone(), ..Body::default() };
    if let Some(examinee) = examination.pipelines.first() {
        body.pipeline = examinee.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        body.warnings.extend(remarks::of_file(&examinee.warnings));
        // Another's topics, or a block of frazil.toml, do not keep this file from being read.
        if let Some(resolved) = &examinee.resolved {
            let files = estimate::of(resolved, arguments.records_per_second, arguments.record_bytes);
            body.warnings.extend(remarks::of(resolved, environment, &files));
            body.offline = Some(offline(resolved, environment, files));
            if faults.is_empty() && resolved.pipeline.has_many() {
                match look_at_many(resolved, examinee, environment, session).await {
                    Ok((tables, found, warnings)) => {
                        let unread = tables.iter().find_map(|table| match &table.live {
                            Live::Unreachable { why } => Some(why),
                            _ => None,
                        });
                        if let (Some(why), true) = (unread, arguments.exit_code) {
                            return Err(unreachable(why.clone()));
                        }
                        faults.extend(found);
                        body.warnings.extend(warnings);
                        (body.live, body.tables) = (Live::Many, tables);
                    }
                    Err(failure) if arguments.exit_code => return Err(unreachable(failure.message)),
                    Err(failure) => body.live = Live::Unreachable { why: failure.message },
                }
            } else if faults.is_empty() {
                let (live, compared) = look(resolved, examinee, environment, session).await;
                let Compared { changes, faults: found, warnings } = compared;
                if let (Live::Unreachable { why }, true) = (&live, arguments.exit_code) {
                    return Err(unreachable(why.clone()));
                }
                faults.extend(found);
                body.warnings.extend(warnings);
                (body.live, body.changes) = (live, changes);
            }
        }
    }
    for fault in &mut faults {
        fault.file = shown(&fault.file, session);
    }
    let changes = !body.changes.is_empty() || body.tables.iter().any(|table| !table.changes.is_empty());
    let exit = match (faults.len(), arguments.exit_code && changes) {
        (0, true) => Exit::No,
        (0, false) => Exit::Done,
        _ => Exit::Usage,
    };
    let failure = faults.first().map(|first| {
        let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
        Failure::usage(first.code, lines.join("\n"))
            .at(format!("{}:{}:{}", first.file.display(), first.line, first.column))
            .remedy("mend what is named there; every fault is")
    });
    body.faults = faults;
    match failure {
        None => session.output.reply("plan", &body, human)?,
        Some(failure) => session.output.reply_refused("plan", &body, human, &failure)?,
    }
    Ok(exit)
}

fn offline(resolved: &Resolved, environment: &Environment, files: Estimate) -> Offline {
    let pipeline = &resolved.pipeline;
    let (ddl, ddl_lacks) = match ddl::spark(&pipeline.table, &resolved.schema) {
        Ok(text) => (Some(text), None),
        Err(lacks) => (None, Some(lacks)),
    };
    Offline {
        table: pipeline.table.name.to_string(),
        mode: pipeline.table.mode,
        hash: resolved.hash.clone(),
        columns: columns(resolved),
        partition_spec: partition_spec(resolved),
        ddl,
        ddl_lacks,
        merge: remarks::merge(pipeline),
        files,
        engines: engines::of(&resolved.schema),
        permissions: permissions::of(pipeline, environment),
    }
}

fn partition_spec(resolved: &Resolved) -> Vec<Field> {
    let field = |field: &PartitionField| Field {
        name: field.name.clone(),
        transform: field.transform.to_string(),
        source: resolved.schema.name_by_field_id(field.source_id).unwrap_or_default().to_owned(),
    };
    resolved.spec.fields().iter().map(field).collect()
}

fn unreachable(why: String) -> Failure {
    let failure = Failure::new(Kind::Retry, "plan.unreachable", why);
    failure.remedy("whether something would change is not known: make the catalog reachable")
}

/// Looks at each of many tables, as far as they are known.
async fn look_at_many(
    resolved: &Resolved,
    examinee: &Examinee,
    environment: &Environment,
    session: &Session<'_>,
) -> Result<(Vec<OfTable>, Vec<Fault>, Vec<Remark>), Failure> {
    let pipeline = &resolved.pipeline;
    let named = pipeline.source.topics.iter().filter(|topic| !glob::is_glob(topic));
    let mut known: BTreeSet<TableName> = named.filter_map(|topic| pipeline.route.as_ref()?.of_topic(topic)).collect();
    let differing = resolved.differing.iter().map(|own| own.pipeline.table.name.clone());
    known.extend(differing.filter(|table| pipeline.takes(table)));
    if environment::must_exist(environment).is_ok() || matches!(environment.store, Location::S3 { .. }) {
        let store = environment::existing_store(environment, session).await?;
        let id = environment::known_id(store.as_ref(), &pipeline.name, session.ids.as_ref()).await?;
        let fold = Tables::untouched(environment, session).await?.fold(pipeline.clone(), id, store, true, session);
        known.extend(fold.tables().await.map_err(|e| super::fold::failed(&e))?);
    }
    let mut tables = Vec::new();
    let (mut faults, mut remarks) = (Vec::new(), Vec::new());
    for table in known {
        let own = resolved.of(&table);
        // One whose metadata can't be read hides nothing of the others.
        let (live, compared) = look(&own, examinee, environment, session).await;
        let Compared { changes, faults: found, warnings } = compared;
        remarks.extend(warnings.into_iter().map(|r| Remark { message: format!("{table}: {}", r.message), ..r }));
        let of_table = |fault: Fault| Fault { message: format!("{table}: {}", fault.message), ..fault };
        faults.extend(found.into_iter().map(of_table));
        let (mode, partition_spec) = (own.pipeline.table.mode, partition_spec(&own));
        tables.push(OfTable { table: table.to_string(), mode, partition_spec, live, changes });
    }
    Ok((tables, faults, remarks))
}

fn columns(resolved: &Resolved) -> Vec<Column> {
    let mut all: Vec<Column> = resolved
        .columns
        .columns
        .iter()
        .map(|column| Column {
            name: column.name.clone(),
            r#type: column.data_type.to_string(),
            required: column.required,
            source: column.source_name.clone(),
        })
        .collect();
    if resolved.pipeline.table.record_columns {
        let fields = ["@topic", "@partition", "@offset", "@timestamp", "@ingested_at"];
        all.extend(RECORD_COLUMNS.iter().zip(fields).map(|((name, data_type, required), source)| Column {
            name: (*name).to_owned(),
            r#type: data_type.to_string(),
            required: *required,
            source: source.to_owned(),
        }));
    }
    if resolved.pipeline.table.marks_deletes() {
        let of_record = ["deletes = \"soft\"", "@timestamp of the record that deletes"];
        all.extend(MARK_COLUMNS.iter().zip(of_record).map(|((name, data_type), source)| Column {
            name: (*name).to_owned(),
            r#type: data_type.to_string(),
            required: false,
            source: source.to_owned(),
        }));
    }
    all
}

/// Looks at the table, and changes nothing. What can't be reached is said, and the rest of the plan stands.
async fn look(
    resolved: &Resolved,
    examinee: &Examinee,
    environment: &Environment,
    session: &Session<'_>,
) -> (Live, Compared) {
    match compare(resolved, examinee, environment, session).await {
        Ok(found) => found,
        Err(failure) => (Live::Unreachable { why: failure.message }, Compared::default()),
    }
}

async fn compare(
    resolved: &Resolved,
    examinee: &Examinee,
    environment: &Environment,
    session: &Session<'_>,
) -> Result<(Live, Compared), Failure> {
    let name = &resolved.pipeline.table.name;
    // Without a catalog there is no table, and nobody is asked for credentials.
    let is_local = matches!(environment.store, Location::File(_));
    let is_made = is_local && environment::must_exist(environment).is_ok();
    let tables = match environment::has_catalog(environment) || is_made {
        true => Some(Tables::untouched(environment, session).await?),
        false => None,
    };
    let loaded = match &tables {
        Some(tables) => tables.load(name).await?,
        None => None,
    };
    let mut bound = None;
    let mut has_committed = false;
    let mut stop = None;
    let mut is_uncompared = false;
    // A store that nobody made yet refuses to be listed.
    if let Some(tables) = tables.as_ref().filter(|_| is_made || !is_local) {
        let store = environment::existing_store(environment, session).await?;
        let id = environment::known_id(store.as_ref(), &resolved.pipeline.name, session.ids.as_ref()).await?;
        if let Some(loaded) = &loaded {
            has_committed = loaded.metadata.properties().contains_key(&model::ledger::property(&id));
        }
        let fold = tables.fold(resolved.pipeline.clone(), id.clone(), store, true, session);
        stop = fold.stands().await.err().filter(|error| error.kind() == Kind::Misconfigured);
        if stop.is_none() {
            // What is staged may be of a version of the schema, or of a file, that this one says nothing of.
            stop = fold.foresee().await.filter(|error| error.kind() == Kind::Misconfigured);
        }
        if stop.is_none() && resolved.pipeline.table.mode == Mode::Upsert {
            is_uncompared = fold.is_uncompared().await.unwrap_or(false);
        }
        if let (Some(loaded), None) = (&loaded, &stop) {
            bound = fold::bound(loaded.metadata.properties(), &id).map_err(|e| super::fold::failed(&e))?;
        }
    }
    let (live, mut compared) = match &loaded {
        None => (Live::Absent, live::absent(resolved, examinee)),
        Some(loaded) => {
            let compared = live::compare(resolved, examinee, &loaded.metadata, bound.as_ref(), has_committed);
            let (metadata_location, format_version) =
                (loaded.metadata_location.clone(), loaded.metadata.format_version() as u8);
            (Live::Present { metadata_location, format_version }, compared)
        }
    };
    if is_uncompared {
        let message = format!(
            "rows of {name} were let in without looking for others of their ({}): where a key has several, they stay until a record of the \
             key takes effect; it is held against the newest of them{}, and all of them go together; of a key that no record comes of, all stay",
            resolved.pipeline.table.primary_key.join(", "),
            match resolved.pipeline.table.upsert.as_ref().is_some_and(|upsert| !upsert.order_by.is_empty()) {
                true => " (by `order_by`, then by record)",
                false => " (the one of the latest record)",
            }
        );
        compared.warnings.push(Remark { code: "plan.rows_of_a_key", message });
    }
    // What the comparison has said in its own words is not said again.
    let said = ["fold.foreign_table", "fold.table_exists", "fold.table_missing", "fold.mark_column"];
    let said = |stop: &fold::Error| {
        said.contains(&stop.code()) || compared.faults.iter().any(|fault| fault.message.contains(&stop.to_string()))
    };
    if let Some(stop) = stop.filter(|stop| !said(stop)) {
        let remedy = stop.remedy().map_or_else(String::new, |remedy| format!("; {remedy}"));
        let message = format!("folds stop: {stop}{remedy}");
        compared.faults.push(examinee.examined.fault("table.name", stop.code(), message, None));
    }
    Ok((live, compared))
}

fn human(body: &Body) -> String {
    let mut text = format!("pipeline {} in the environment `{}`\n", body.pipeline, body.env);
    if let Some(offline) = &body.offline {
        text.push_str(&described(offline));
    }
    text.push_str(&live_text(&body.live));
    text.push_str(&changes_text(&body.live, &body.changes));
    for table in &body.tables {
        let by: Vec<String> = table.partition_spec.iter().map(|f| format!("{}({})", f.transform, f.source)).collect();
        let by = if by.is_empty() { "not partitioned".to_owned() } else { by.join(", ") };
        text.push_str(&format!("\n{}, mode {}, {by}", table.table, mode(table.mode)));
        text.push_str(&live_text(&table.live));
        text.push_str(&changes_text(&table.live, &table.changes));
    }
    for warning in &body.warnings {
        text.push_str(&format!("\nwarning: {} [{}]", warning.message, warning.code));
    }
    text
}

fn live_text(live: &Live) -> String {
    match live {
        Live::NotLooked => "\nTable: not looked at, for there are faults\n".to_owned(),
        Live::Absent => "\nTable: not there yet\n".to_owned(),
        Live::Present { metadata_location, .. } => format!("\nTable: {metadata_location}\n"),
        Live::Unreachable { why } => format!("\nTable: not reached ({why}); what is above is from the files alone\n"),
        Live::Many => "\nTables: each record's own\n".to_owned(),
    }
}

fn changes_text(live: &Live, changes: &[Change]) -> String {
    let mut text = String::new();
    let between = |change: &Change| match (&change.table, &change.file) {
        (Some(table), Some(file)) => format!(" ({table} in the table, {file} in the file)"),
        (Some(one), None) | (None, Some(one)) => format!(" ({one})"),
        (None, None) => String::new(),
    };
    for change in changes {
        let kind = serde_json::to_value(change.change).unwrap_or_default();
        let kind = kind.as_str().unwrap_or_default().replace('_', " ");
        text.push_str(&format!("  {kind} {}{}: {}\n", change.name, between(change), change.effect));
    }
    if changes.is_empty() && matches!(live, Live::Present { .. }) {
        text.push_str("  nothing would change\n");
    }
    text
}

fn described(offline: &Offline) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_BORDERS_ONLY);
    table.set_header(["column", "type", "", "from"]);
    for column in &offline.columns {
        let required = if column.required { "required" } else { "" };
        table.add_row([&column.name, &column.r#type, required, &column.source]);
    }
    let mut text = format!("{}, mode {}, hash {}\n{table}\n", offline.table, mode(offline.mode), offline.hash);
    text.push_str(&format!("\nMerge: {}\n", offline.merge));
    text.push_str(&format!("\nFiles: {}\n", offline.files.text()));
    let known: Vec<String> = offline
        .engines
        .iter()
        .map(|engine| {
            let reads = match engine.reads {
                Reads::Yes => "yes",
                Reads::No => "no",
                Reads::Unknown => "not known",
            };
            let why = engine.why.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
            format!("  {:<18} {reads}{why}", engine.engine)
        })
        .collect();
    text.push_str(&format!("\nEngines, by types and format version:\n{}\n", known.join("\n")));
    match (&offline.ddl, &offline.ddl_lacks) {
        (Some(ddl), _) => text.push_str(&format!("\n{ddl}\n")),
        (None, lacks) => {
            let lacks = lacks.as_deref().unwrap_or_default();
            text.push_str(&format!("\nSpark SQL can't make this table: it has no words for {lacks}\n"));
        }
    }
    if let Some(permissions) = &offline.permissions {
        for (name, role) in
            [("function", &permissions.function), ("fold", &permissions.fold), ("maintain", &permissions.maintain)]
        {
            let policy = serde_json::to_string_pretty(&role.policy).unwrap_or_default();
            let managed: String = role.managed_policies.iter().map(|name| format!(", and {name}")).collect();
            text.push_str(&format!("\nThe role of {name}{managed}:\n{policy}\n"));
        }
    }
    text
}

const fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Append => "append",
        Mode::Dedup => "dedup",
        Mode::Upsert => "upsert",
    }
}
