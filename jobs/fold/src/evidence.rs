//! Signs that what is staged is not what the table's past says it must be. Each of them would lose rows silently, or
//! repeat them; so each stops the fold.

use std::collections::BTreeSet;

use model::coordinate::{SourceId, TopicPartition};
use model::id::PipelineId;
use model::ledger::{self, Ledger};
use pipeline::resolved::TableName;
use staging::store::Store;
use table::catalog::Loaded;

use crate::error::Error;
use crate::intake::Intake;
use crate::ledger_property;

/// A topic deleted and made again starts over at offset 0, where the ledger has settled another record. The ledger keeps
/// some offsets with their timestamps, and every object says those of its ends: where both speak of one offset they must agree.
pub(crate) fn same_topics(table: &TableName, ledger: &Ledger, intake: &Intake) -> Result<(), Error> {
    for found in &intake.objects {
        for (at, covered) in found.footer.coverage.iter() {
            let Some(known) = ledger.partition(at) else { continue };
            let disagrees = |sample: &&model::coordinate::Sample| {
                [covered.first, covered.last]
                    .iter()
                    .any(|end| end.offset == sample.offset && end.timestamp_ms != sample.timestamp_ms)
            };
            if let Some(sample) = known.samples.iter().find(disagrees) {
                return Err(recreated(table, at, sample.offset, &found.key));
            }
        }
    }
    Ok(())
}

fn recreated(table: &TableName, at: &TopicPartition, offset: i64, key: &str) -> Error {
    Error::Stopped {
        code: "fold.topic_recreated",
        message: format!(
            "`{key}` has another record at offset {offset} of topic `{}`, partition {}, than {table} has settled: the topic \
             was deleted and made again",
            at.topic, at.partition
        ),
        remedy:
            "give the pipeline a new source name, so that the new topic's offsets count from their own start; nothing \
                 staged is lost meanwhile"
                .to_owned(),
    }
}

/// Rows staged for a table of another name would be settled here without being anywhere.
pub(crate) fn own_table(table: &TableName, intake: &Intake) -> Result<(), Error> {
    let name = table.to_string();
    for found in &intake.objects {
        if let Some(other) = found.footer.tables.iter().find(|t| t.rows > 0 && t.name != name) {
            return Err(Error::Stopped {
                code: "fold.table_changed",
                message: format!(
                    "`{}` holds {} rows for {}, and the pipeline now says {name}",
                    found.key, other.rows, other.name
                ),
                remedy: format!(
                    "set the table's name back to {}, fold until nothing is left, then change it",
                    other.name
                ),
            });
        }
    }
    Ok(())
}

/// A coordinate's rows enter a table once over all its pipelines (I2): two of them may not take the same topic.
pub(crate) async fn own_topics(
    store: &dyn Store,
    pipeline: &PipelineId,
    loaded: &Loaded,
    intake: &Intake,
) -> Result<(), Error> {
    let mine = ledger::property(pipeline);
    let staged: BTreeSet<(&SourceId, &str)> = intake
        .objects
        .iter()
        .flat_map(|found| found.footer.coverage.iter())
        .map(|(at, _)| (&at.source, at.topic.as_str()))
        .collect();
    for (property, text) in loaded.metadata.properties() {
        if !property.starts_with("frazil.ledger.") || *property == mine {
            continue;
        }
        let other = ledger_property::read(store, property, text).await?;
        let shared = other.partitions().find(|(at, _)| staged.contains(&(&at.source, at.topic.as_str())));
        if let Some((at, _)) = shared {
            let other = property.trim_start_matches("frazil.ledger.");
            return Err(Error::Stopped {
                code: "fold.shared_topic",
                message: format!(
                    "pipeline `{other}` has folded topic `{}` into {} already; `{pipeline}` would repeat its rows",
                    at.topic, loaded.name
                ),
                remedy:
                    "fold into another table; if this is the same pipeline, restore its id at `pipelines/<name>/id`"
                        .to_owned(),
            });
        }
    }
    Ok(())
}
