//! Every fault of a project's files at once: of `frazil.toml`, of pipeline files, and of what they name. Nothing but files
//! is looked at.

mod schema;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use codec::columns::{self, About, Columns, Own, Unmatched};
use iceberg::spec::{PartitionSpec, SchemaRef, SortOrder};
use model::clock::Clock;
use pipeline::Fault;
use pipeline::environment::{self, Environment};
use pipeline::fault::code;
use pipeline::file::{self, Examined};
use pipeline::glob;
use pipeline::resolved::{self, Exists, Pipeline, Table, TableName, Write};
use table::data_file;
use table::schema::Column;
use table::{partition, sort};

use schema::Found;

use crate::Session;
use crate::environment::{absolute, misread};
use crate::manners::failure::Failure;

/// A project's files.
pub(crate) struct Examination {
    /// The chosen environment, as far as it could be read.
    pub(crate) environment: Environment,
    /// The faults of `frazil.toml` and of Kafka's client settings.
    faults: Vec<Fault>,
    /// The pipelines that were asked for, by name.
    pub(crate) pipelines: Vec<Examinee>,
}

/// One pipeline file.
pub(crate) struct Examinee {
    /// The file.
    pub(crate) path: PathBuf,
    /// What was read of it, with the faults of the file alone.
    pub(crate) examined: Examined,
    /// All faults, of what it names too.
    pub(crate) faults: Vec<Fault>,
    /// What is allowed and may still not be meant, as far as schemas tell.
    pub(crate) warnings: Vec<Fault>,
    /// What it comes to, where nothing is wrong.
    pub(crate) resolved: Option<Resolved>,
    /// Why a registry could not be asked for the schema.
    unanswered: Option<Failure>,
}

/// Who may be asked for a schema.
pub(crate) struct Asked {
    /// Whether registries are that are not folders.
    pub(crate) services: bool,
    pub(crate) variable: fn(&str) -> Option<String>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// What a pipeline comes to.
#[derive(Clone)]
pub(crate) struct Resolved {
    pub(crate) pipeline: Pipeline,
    pub(crate) columns: Columns,
    /// What sources of columns were in earlier versions of the schema, by what they are now.
    pub(crate) former: BTreeMap<String, Vec<String>>,
    /// The table's columns, those of records behind the others, as a fold makes them.
    pub(crate) schema: SchemaRef,
    pub(crate) spec: PartitionSpec,
    pub(crate) order: SortOrder,
    /// The hash of the file's content with its schemas.
    pub(crate) hash: String,
    /// Fields that are in no column because one is made of another field of their record.
    pub(crate) left_aside: Vec<String>,
    /// Versions of the schema whose records are not read, by their numbers, and why.
    pub(crate) refused: Vec<(u32, String)>,
    /// Fields of versions of the schema that are in no column, for a column of their name is declared of something else.
    pub(crate) replaced: Vec<(u32, Vec<String>)>,
    /// Of many tables those that differ from the others.
    pub(crate) differing: Vec<Self>,
}

impl Resolved {
    /// What it comes to for one of its tables.
    pub(crate) fn of(&self, table: &TableName) -> Self {
        let own = self.differing.iter().find(|own| own.pipeline.table.name.name == table.name).unwrap_or(self);
        Self { pipeline: self.pipeline.of(table), differing: Vec::new(), ..own.clone() }
    }
}

impl Examination {
    /// Looks at one pipeline, by name or path, or at all there are. Where no service is asked, what depends on a schema that one
    /// keeps is not looked at.
    ///
    /// # Errors
    /// When no such environment or pipeline is there, or a file can't be read, or a registry not asked that may be: then nothing
    /// can be said.
    pub(crate) async fn of(
        wanted: Option<&str>,
        all: bool,
        services: bool,
        session: &Session<'_>,
    ) -> Result<Self, Failure> {
        let mut asks = Asked { services, variable: session.variable, clock: Arc::clone(&session.clock) };
        let (environment, mut faults) = chosen(session)?;
        faults.extend(client_settings(&environment));
        let mut folders = environment.pipeline_folders(&session.folder);
        if session.dir.is_some() {
            folders.reverse();
        }
        let found = pipeline::discovery::list(&folders).map_err(|e| misread(&e))?;
        let mut paths: BTreeSet<PathBuf> = BTreeSet::new();
        for path in found.values() {
            paths.insert(absolute(&session.folder, path)?);
        }
        // A project whose pipelines are still to be written has its environments to look at.
        let asked = if all && !(paths.is_empty() && environment.root.is_none()) {
            None
        } else {
            let path = pipeline::discovery::find(&folders, wanted).map_err(|e| misread(&e))?;
            Some(absolute(&session.folder, &path)?)
        };
        paths.extend(asked.clone());
        let mut pipelines: Vec<Examinee> = Vec::new();
        for path in paths {
            // Of others only their topics are asked for.
            let is_asked = asked.as_ref().is_none_or(|asked| *asked == path);
            asks.services = services && is_asked;
            match Box::pin(examine(&path, &environment, &asks)).await {
                Ok(Examinee { unanswered: Some(failure), .. }) if is_asked => return Err(failure),
                Ok(examinee) => pipelines.push(examinee),
                Err(_) if asked.as_ref().is_some_and(|asked| *asked != path) => {}
                Err(pipeline::Error::Faults(found)) => faults.extend(found),
                // Named by a person it is a slip of the command; found in the folder it is the folder's fault.
                Err(pipeline::Error::Unreadable { path, source }) if asked.is_none() => {
                    faults.push(unreadable(path, &source));
                }
                Err(error) => return Err(misread(&error)),
            }
        }
        if faults.iter().any(|fault| fault.code == code::SYNTAX) {
            // Which variables there are is not known then.
            for examinee in &mut pipelines {
                examinee.faults.retain(|fault| fault.code != code::UNKNOWN_VARIABLE);
            }
        }
        topics_taken(&mut pipelines, asked.as_deref());
        pipelines.retain(|examinee| asked.as_ref().is_none_or(|asked| *asked == examinee.path));
        Ok(Self { environment, faults, pipelines })
    }

    /// Every fault, by file and place.
    pub(crate) fn faults(&self) -> Vec<Fault> {
        let mut all = self.faults.clone();
        all.extend(self.pipelines.iter().flat_map(|examinee| examinee.faults.iter().cloned()));
        in_order(&mut all);
        all
    }

    /// Every warning that schemas give cause to, by file and place.
    pub(crate) fn warnings(&self) -> Vec<Fault> {
        let mut all: Vec<Fault> =
            self.pipelines.iter().flat_map(|examinee| examinee.warnings.iter().cloned()).collect();
        in_order(&mut all);
        all
    }
}

fn in_order(all: &mut Vec<Fault>) {
    all.sort_by(|a, b| (&a.file, a.line, a.column, &a.message).cmp(&(&b.file, b.line, b.column, &b.message)));
    all.dedup();
}

/// The environment that a command line chose, as far as it can be read, with the faults of its file.
fn chosen(session: &Session<'_>) -> Result<(Environment, Vec<Fault>), Failure> {
    if session.dir.is_some() {
        return Ok((crate::environment::settings(session)?, Vec::new()));
    }
    let folder = absolute(&session.folder, Path::new(""))?;
    match environment::examine_at(&folder) {
        Ok((environments, mut faults)) => match environments.sketch(session.env.as_deref()) {
            Ok((environment, later)) => {
                faults.extend_from_slice(later);
                Ok((environment.clone(), faults))
            }
            // Where the file's structure is broken, no block can be told.
            Err(_) if faults.iter().any(|fault| fault.code == code::SYNTAX) => Ok((without_file(&folder), faults)),
            Err(error) => Err(misread(&error)),
        },
        Err(pipeline::Error::Faults(faults)) => Ok((without_file(&folder), faults)),
        Err(pipeline::Error::Unreadable { path, source }) => {
            Ok((without_file(&folder), vec![unreadable(path, &source)]))
        }
        Err(error) => Err(misread(&error)),
    }
}

/// A file that is there and can't be read.
fn unreadable(file: PathBuf, error: &std::io::Error) -> Fault {
    let message = format!("it can't be read: {error}");
    Fault { file, line: 1, column: 1, code: code::UNREADABLE, message, nearest: None }
}

/// What there is of an environment whose file is no TOML: where the project is.
fn without_file(folder: &Path) -> Environment {
    let root = environment::find(folder).and_then(|file| file.parent().map(Path::to_owned));
    Environment { root, ..Environment::embedded(folder.join(".frazil")) }
}

#[cfg(feature = "kafka")]
fn client_settings(environment: &Environment) -> Vec<Fault> {
    crate::kafka::faults(environment)
}

#[cfg(not(feature = "kafka"))]
fn client_settings(_: &Environment) -> Vec<Fault> {
    Vec::new()
}

/// Looks at one pipeline file and what it names.
///
/// # Errors
/// When it can't be read.
pub(crate) async fn examine(
    path: &Path,
    environment: &Environment,
    asked: &Asked,
) -> Result<Examinee, pipeline::Error> {
    let examined = file::examine(path, environment)?;
    let mut faults = examined.faults.clone();
    let (schema, unanswered) = match schema::find(&examined, environment, asked, &mut faults).await {
        Ok(schema) => (schema, None),
        Err(failure) => (Found::Unknown, Some(failure)),
    };
    let (keys, unanswered) = match (keys(&examined, environment, asked, &mut faults).await, unanswered) {
        (Ok(keys), unanswered) => (keys, unanswered),
        (Err(failure), unanswered) => (None, unanswered.or(Some(failure))),
    };
    let mut warnings = match &schema {
        Found::Usable(own) => unmatched(&examined, own),
        Found::Unknown | Found::Wrong => Vec::new(),
    };
    warnings.extend(joined(&examined));
    let resolved = match (schema, &keys) {
        (Found::Unknown, _) | (_, None) => None,
        (Found::Wrong, Some(keys)) => resolve(&examined, environment, None, keys, &mut faults),
        (Found::Usable(own), Some(keys)) => resolve(&examined, environment, Some(&own), keys, &mut faults),
    };
    let resolved = resolved.filter(|_| faults.is_empty());
    Ok(Examinee { path: path.to_owned(), examined, faults, warnings, resolved, unanswered })
}

/// Exclusions of what no known version of the schema has. Payloads without a schema have whatever they have.
fn unmatched(examined: &Examined, own: &Own) -> Vec<Fault> {
    let pipeline = examined.pipeline.iter().filter(|pipeline| pipeline.value.schema != resolved::Schema::Declared);
    let found = pipeline.flat_map(|pipeline| columns::unmatched(own, &pipeline.table));
    let warning = |Unmatched { place, path, nearest }: Unmatched| {
        let hint = nearest.as_ref().map_or_else(String::new, |nearest| format!("; did you mean `{nearest}`?"));
        let message =
            format!("no known version of the schema has a field `{path}`: nothing is left out before one has{hint}");
        examined.fault(&place, code::UNMATCHED, message, nearest)
    };
    found.map(warning).collect()
}

/// What the file says of a table that others made, where the table's own goes before it.
fn joined(examined: &Examined) -> Vec<Fault> {
    let joined = examined.pipeline.iter().map(|pipeline| &pipeline.table).filter(|table| table.exists == Exists::Join);
    let settings = joined.flat_map(|table| {
        let is_said = [
            ("partition_by", !table.partition_by.is_empty()),
            ("sort_by", !table.sort_by.is_empty()),
            ("write", table.upsert.as_ref().is_some_and(|upsert| upsert.write != Write::Auto)),
            // How long history is kept may follow from the retention, and nobody has said it.
            ("properties", table.properties.keys().any(|name| name != "history.expire.max-snapshot-age-ms")),
        ];
        is_said.into_iter().filter(|(_, is_said)| *is_said).map(|(setting, _)| setting)
    });
    let warning = |setting: &str| {
        let message = format!("`exists = \"join\"`: where the table says otherwise than `{setting}`, its own wins");
        examined.fault(&format!("table.{setting}"), code::JOINED, message, None)
    };
    settings.map(warning).collect()
}

/// What is known of keys: the pipeline with the types of the columns that they fill, these columns by the key's own schema, with the
/// sources that they had before, its digest, and why keys of some of its versions are not read.
#[derive(Default)]
struct Keys {
    pipeline: Option<Pipeline>,
    columns: Option<Columns>,
    former: BTreeMap<String, Vec<String>>,
    digest: Option<String>,
    refused: Vec<(u32, String)>,
}

/// Plans the columns that keys fill; none where nothing can be said of them, or what is wrong with them was said.
async fn keys(
    examined: &Examined,
    environment: &Environment,
    asked: &Asked,
    faults: &mut Vec<Fault>,
) -> Result<Option<Keys>, Failure> {
    let Some((pipeline, of_key)) = examined.pipeline.as_ref().and_then(|p| Some((p, p.of_key()?))) else {
        return Ok(Some(Keys::default()));
    };
    let Found::Usable(own) = schema::find_key(examined, &of_key, environment, asked, faults).await? else {
        return Ok(None);
    };
    Ok(match columns::plan_keys(own.as_ref(), pipeline, &of_key) {
        Ok((keys, typed)) => {
            let former = columns::former_of_keys(&columns::former_sources(own.as_ref(), &keys.columns));
            let (columns, digest) = (Some(keys.columns.clone()), Some(own.schema.digest()));
            let versions = columns::Versions::new(&of_key, *own, keys);
            let refused = versions.refused().into_iter();
            let refused = refused.map(|(number, why)| (number, format!("of the key's schema: {}", why.message)));
            Some(Keys { pipeline: Some(typed), columns, former, digest, refused: refused.collect() })
        }
        Err(found) => {
            for fault in found {
                let nearest = nearest(&fault.message);
                faults.push(examined.fault(&fault.place, code::MISFIT, fault.message, nearest));
            }
            None
        }
    })
}

fn resolve(
    examined: &Examined,
    environment: &Environment,
    own: Option<&Own>,
    keys: &Keys,
    faults: &mut Vec<Fault>,
) -> Option<Resolved> {
    let written = examined.pipeline.as_ref()?;
    let pipeline = keys.pipeline.as_ref().unwrap_or(written);
    if let (Some(column), None) = (pipeline.hashed_column(), &environment.pii_salt) {
        let message = format!(
            "`{column}` is hashed, and the environment `{}` names no `pii_salt`: \"env:NAME\", the variable that holds it",
            environment.name
        );
        faults.push(examined.fault(&format!("table.columns.{column}.pii"), code::NO_SALT, message, None));
    }
    let planned = own.map(|own| columns::plan_tables(own, pipeline));
    let tables = match planned {
        Some(Ok(mut tables)) => {
            if let Some(columns) = &keys.columns {
                tables.tell_keys(columns);
            }
            Some(tables)
        }
        Some(Err(found)) => {
            for fault in found.into_iter().filter(|fault| !is_told(examined, pipeline, fault)) {
                let code = match fault.about {
                    About::Missing(_) => code::UNKNOWN_COLUMN,
                    _ => code::MISFIT,
                };
                let nearest = nearest(&fault.message);
                faults.push(examined.fault(&fault.place, code, fault.message, nearest));
            }
            None
        }
        None => None,
    };
    let columns = tables.as_ref().map(|tables| &tables.columns);
    let all = laid_out(examined, pipeline, &pipeline.table, "table", columns, faults);
    let mut differing = BTreeMap::new();
    for (name, table) in &pipeline.tables {
        let columns = tables.as_ref().map(|tables| tables.of(name));
        let place = format!("tables.{name}");
        differing.insert(name.clone(), laid_out(examined, pipeline, table, &place, columns, faults));
    }
    let own = own?;
    let former = |columns: &Columns| {
        let mut former = columns::former_sources(own, columns);
        former.extend(keys.former.clone());
        former
    };
    let mut digests = BTreeMap::from([("value".to_owned(), own.schema.digest())]);
    digests.extend(keys.digest.iter().map(|digest| ("key".to_owned(), digest.clone())));
    let hash = match pipeline::hash::of(written, &digests) {
        Ok(hash) => hash,
        Err(error) => {
            faults.push(examined.fault("table", code::CANONICAL, error.to_string(), None));
            return None;
        }
    };
    let (tables, Layout { schema, spec, order }) = (tables?, all?);
    let versions = columns::Versions::new(pipeline, own.clone(), tables.clone());
    let refused = versions.refused().into_iter().map(|(number, why)| (number, why.message.clone()));
    let refused = refused.chain(keys.refused.iter().cloned()).collect();
    let replaced = versions.replaced().into_iter().map(|(number, fields)| (number, fields.to_vec())).collect();
    let mut resolved = Resolved {
        left_aside: columns::left_aside(own, &pipeline.table, &tables.columns),
        refused,
        replaced,
        pipeline: pipeline.clone(),
        former: former(&tables.columns),
        columns: tables.columns,
        schema,
        spec,
        order,
        hash,
        differing: Vec::new(),
    };
    for (name, columns) in tables.differing {
        let Layout { schema, spec, order } = differing.remove(&name).flatten()?;
        let table = TableName { name: name.clone(), ..pipeline.table.name.clone() };
        let former = former(&columns);
        let own = Resolved { pipeline: pipeline.of(&table), columns, former, schema, spec, order, ..resolved.clone() };
        resolved.differing.push(own);
    }
    Some(resolved)
}

/// How a table is laid out.
struct Layout {
    schema: SchemaRef,
    spec: PartitionSpec,
    order: SortOrder,
}

/// Lays a table out, as far as its columns are known. `place` is the block that says how.
fn laid_out(
    examined: &Examined,
    pipeline: &Pipeline,
    table: &Table,
    place: &str,
    columns: Option<&Columns>,
    faults: &mut Vec<Fault>,
) -> Option<Layout> {
    let misfit = |place: &str, error: &table::fault::Fault| {
        examined.fault(place, code::MISFIT, Failure::of(error.kind(), "", error).message, None)
    };
    let schema = match columns.map(|columns| table::schema::iceberg_schema(&made_of(pipeline, columns))) {
        Some(Ok(schema)) => Some(Arc::new(schema)),
        Some(Err(error)) => {
            faults.push(misfit(place, &error));
            None
        }
        None => None,
    };
    properties(examined, table, place, schema.as_ref(), faults);
    let schema = schema?;
    let spec = partition::spec(&schema, &table.partition_by).map_err(|e| misfit(&format!("{place}.partition_by"), &e));
    let order = sort::order(&schema, &table.sort_by).map_err(|e| misfit(&format!("{place}.sort_by"), &e));
    match (spec, order) {
        (Ok(spec), Ok(order)) => Some(Layout { schema, spec, order }),
        (spec, order) => {
            faults.extend(spec.err());
            faults.extend(order.err());
            None
        }
    }
}

/// Table properties that no file could be written by, each. What they say of columns takes the schema.
fn properties(examined: &Examined, table: &Table, place: &str, schema: Option<&SchemaRef>, faults: &mut Vec<Fault>) {
    let (schema, keys) = match schema {
        Some(schema) => (SchemaRef::clone(schema), table.primary_key.as_slice()),
        None => match table::schema::iceberg_schema(&[]) {
            Ok(empty) => (Arc::new(empty), [].as_slice()),
            Err(_) => return,
        },
    };
    let mut properties: HashMap<String, String> = table.properties.clone().into_iter().collect();
    while let Err(error) = data_file::Settings::new(&properties, &schema, &[], &[], keys) {
        let message = Failure::of(error.kind(), "", &error).message;
        let key = match error {
            table::fault::Fault::Property { key, .. } => Some(key),
            _ => None,
        };
        let place = format!("{place}.properties.{}", key.as_deref().unwrap_or_default());
        faults.push(examined.fault(&place, code::MISFIT, message, None));
        // The next one, until there is none; what is no property's fault stays.
        if key.and_then(|key| properties.remove(&key)).is_none() {
            break;
        }
    }
}

/// Whether the file's own faults say already what the schema's planner has to say.
fn is_told(examined: &Examined, pipeline: &Pipeline, fault: &columns::Fault) -> bool {
    let within =
        |column: &str, name: &String| column.strip_prefix(name).is_some_and(|r| r.is_empty() || r.starts_with('.'));
    match &fault.about {
        About::Declaration => examined.is_at_fault(&fault.place),
        // Which column it is, its declaration would have said; or the reader has missed it too.
        About::Missing(column) => {
            examined.unread.iter().any(|name| within(column, name)) || examined.is_at_fault(&fault.place)
        }
        // A partition field, a key: what the reader knows of it, it has said.
        About::Message if fault.place.starts_with("table.dedup_within") || fault.place.ends_with(']') => {
            examined.is_at_fault(&fault.place)
        }
        About::Message => {
            let declared = pipeline.table.columns.iter().find(|c| fault.place == format!("table.columns.{}", c.name));
            let misfits = declared.and_then(|c| Some(c.expect.misfits(c.data_type.as_ref()?)));
            let misfits: Vec<String> = misfits.unwrap_or_default().into_iter().map(|(_, message)| message).collect();
            !misfits.is_empty() && fault.message == misfits.join("; ")
        }
    }
}

/// A table's columns as a fold makes them.
fn made_of(pipeline: &Pipeline, columns: &Columns) -> Vec<Column> {
    let rows = columns.columns.iter().map(|c| (c.name.clone(), c.data_type.clone(), c.required));
    fold::table_columns(&pipeline.table, rows)
}

/// The name that a message offers.
fn nearest(message: &str) -> Option<String> {
    let (_, offered) = message.rsplit_once("did you mean `")?;
    Some(offered.split_once('`')?.0.to_owned())
}

/// Topics that several pipelines read: a record would be theirs all to settle. Said once of each, at the pipeline that was asked for,
/// else at the first.
fn topics_taken(pipelines: &mut [Examinee], asked: Option<&Path>) {
    let mut readers: BTreeMap<(Option<String>, String), Vec<usize>> = BTreeMap::new();
    for (at, examinee) in pipelines.iter().enumerate() {
        if let Some(pipeline) = &examinee.examined.pipeline {
            for topic in &pipeline.source.topics {
                let all = readers.entry((pipeline.source.name.clone(), topic.clone())).or_default();
                if all.last() != Some(&at) {
                    all.push(at);
                }
            }
        }
    }
    // A topic that one names may fit another's pattern. What two patterns have in common, only the cluster knows.
    for ((cluster, topic), all) in &mut readers {
        for (at, examinee) in pipelines.iter().enumerate().filter(|(at, _)| !all.contains(at)).collect::<Vec<_>>() {
            let source = examinee.examined.pipeline.as_ref().map(|pipeline| &pipeline.source);
            if source.is_some_and(|source| source.name == *cluster && source.takes(topic)) {
                all.push(at);
            }
        }
    }
    for ((_, topic), all) in readers.into_iter().filter(|(_, all)| all.len() > 1) {
        let is_asked = |at: &&usize| pipelines.get(**at).is_some_and(|examinee| Some(examinee.path.as_path()) == asked);
        let Some(told) = all.iter().find(is_asked).or(all.first()).copied() else { continue };
        let name = |at: &usize| Some(pipelines.get(*at)?.examined.pipeline.as_ref()?.name.as_str());
        let others: Vec<&str> = all.iter().filter(|at| **at != told).filter_map(name).collect();
        let message = format!(
            "the topic `{topic}` is read by {} too: a topic belongs to one pipeline; where two clusters have one of this \
             name, say which with `name` under [source]",
            others.join(" and ")
        );
        let Some(examinee) = pipelines.get_mut(told) else { continue };
        let topics = examinee.examined.pipeline.iter().flat_map(|pipeline| &pipeline.source.topics);
        let is_it = |known: &str| known == topic || glob::is_glob(known) && glob::fits(known, &topic);
        let place = topics.enumerate().find(|(_, known)| is_it(known)).map_or(0, |(n, _)| n);
        let fault = examinee.examined.fault(&format!("source.topics[{place}]"), code::TOPIC_TAKEN, message, None);
        examinee.faults.push(fault);
    }
}

/// A path as a person may look for it: from the folder that the command runs in, where it lies below.
pub(crate) fn shown(path: &Path, session: &Session<'_>) -> PathBuf {
    let folder = absolute(&session.folder, Path::new("")).unwrap_or_default();
    path.strip_prefix(folder).unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_that_is_offered_is_found() {
        assert_eq!(nearest("there is no `x`; did you mean `y`?"), Some("y".to_owned()));
        assert_eq!(nearest("there is no `x`"), None);
    }
}
