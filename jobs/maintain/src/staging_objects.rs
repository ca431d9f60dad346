//! Staged objects: every one is looked at, also those from before the minute that folds list from.

use std::collections::BTreeMap;

use fold::Fold;
use fold::retained::{Need, Retained};
use model::clock::Timestamp;
use model::mutation::{self, Mutation};
use staging::footer::Footer;
use staging::key;
use staging::list::{self, Listed};
use staging::object::{self, Object};

use crate::error::Error;
use crate::report::Report;
use crate::run::Maintain;

/// How long beginnings and ends of folds stay: folds look at those of the last hour.
const BEGUN_MICROS: i64 = 24 * 3_600_000_000;

/// One of the tables that staged objects feed, with what is known of its past.
struct Fed {
    fold: Fold,
    retained: Retained,
}

/// The tables that staged objects feed.
#[derive(Default)]
struct Feeds {
    /// The pipeline's.
    tables: BTreeMap<String, Fed>,
    /// Those that were the pipeline's once, where an object has rows for them; nothing where they prove nothing.
    former: BTreeMap<String, Option<Fed>>,
}

impl Feeds {
    /// Those that must have settled an object; nothing where one of them can't say so.
    fn of(&mut self, footer: &Footer) -> Option<Vec<&mut Fed>> {
        let is_fed = |name: &String| footer.tables.iter().any(|table| table.rows > 0 && table.name == *name);
        let former = self.former.iter_mut().filter(|(name, _)| is_fed(name)).map(|(_, fed)| fed.as_mut());
        self.tables.values_mut().map(Some).chain(former).collect()
    }
}

impl Maintain {
    pub(crate) async fn staging(&self) -> Result<Report, Error> {
        let store = self.fold.store.as_ref();
        let name = self.fold.pipeline.table.name.to_string();
        let mut report = Report { name, action: "staging", ..Report::default() };
        let listing = list::list_all(store, &self.fold.id, None).await?;
        report.files_before = listing.objects.len() as u64;
        report.files_after = report.files_before;
        let before = self.before(listing.date);
        let mut feeds = Feeds::default();
        let tables = self.fold.tables().await?;
        let asked = if mutation::on(Mutation::OneTableAsked) { 1 } else { usize::MAX };
        for table in tables.into_iter().take(asked) {
            let fold = self.fold.of(&table);
            // A table that was never folded begins with the oldest object, and would miss what lies between those that stay.
            let Some(retained) = fold.retained(before).await? else {
                report.held_by = Some(match self.fold.pipeline.has_many() {
                    true => format!("nothing was folded into {table} yet"),
                    false => "the pipeline has not folded yet".to_owned(),
                });
                return Ok(report);
            };
            if retained.then.is_none() {
                let which = if self.fold.pipeline.has_many() { format!(" of {table}") } else { String::new() };
                report.held_by.get_or_insert(format!(
                    "no retained snapshot{which} of the pipeline is from before {before}: the table is younger, or its \
                     snapshots expire sooner than the retention"
                ));
            }
            feeds.tables.insert(table.to_string(), Fed { fold, retained });
        }
        if feeds.tables.is_empty() {
            report.held_by = Some("the pipeline has not folded yet".to_owned());
            return Ok(report);
        }
        for listed in listing.objects {
            // No snapshot that is old enough can have settled what was staged after it.
            if listed.key.minute.start() > before {
                break;
            }
            self.staged(&listed, before, &mut feeds, &mut report).await?;
        }
        for fed in feeds.tables.values() {
            self.settlements(&fed.retained, before, &mut report).await?;
        }
        self.begun(listing.date).await?;
        Ok(report)
    }

    async fn staged(
        &self,
        listed: &Listed,
        before: Timestamp,
        feeds: &mut Feeds,
        report: &mut Report,
    ) -> Result<(), Error> {
        let (store, key) = (self.fold.store.as_ref(), listed.key.to_string());
        let footer = match Object::read_footer(store, &key, listed.size).await {
            Ok(footer) => footer,
            Err(object::Error::Store(error)) if error.is_not_found() => return Ok(()),
            Err(object::Error::Store(error)) => return Err(error.into()),
            Err(object::Error::Corrupt { .. }) => {
                report.unreadable += 1;
                return Ok(());
            }
            Err(source) => return Err(Error::Object { key, source: Box::new(source) }),
        };
        // What is not this object's own word, or feeds a table whose ledger is not looked at, proves nothing.
        let own = footer.pipeline_id == self.fold.id
            && footer.minute == listed.key.minute
            && footer.hash.is_none_or(|hash| hash == listed.key.hash);
        if !own {
            report.unreadable += 1;
            return Ok(());
        }
        for table in footer.tables.iter().filter(|table| table.rows > 0) {
            if !feeds.tables.contains_key(&table.name) && !feeds.former.contains_key(&table.name) {
                feeds.former.insert(table.name.clone(), self.former(&table.name, before).await?);
            }
        }
        let mut need = Need::Settled;
        // In every table: each counts the others' records as passed, and those of objects that are gone as never delivered.
        let mut is_passed = false;
        match feeds.of(&footer) {
            None => need = Need::Unsettled,
            Some(fed) => {
                for Fed { fold, retained } in fed {
                    if need == Need::Unsettled {
                        break;
                    }
                    need = need.max(match &mut retained.then {
                        Some(then) => fold.need(then, &key, listed.key.minute, &footer).await?,
                        None => Need::Unproved,
                    });
                    is_passed = listed.key.minute < retained.low_minute;
                }
            }
        }
        let need = if mutation::on(Mutation::UnsettledExpired) { Need::Settled } else { need };
        match need {
            Need::Settled => {
                if !self.settings.dry_run {
                    store.delete(&key).await?;
                    report.files_after -= 1;
                }
                report.files_removed += 1;
                report.bytes += listed.size;
            }
            Need::Unproved => report.unproved += 1,
            Need::Unsettled => {
                report.unsettled += 1;
                if is_passed {
                    tracing::warn!(key, "a staged object is not settled, and folds do not list it any more");
                    report.overlooked.push(key.clone());
                }
                report.oldest_unsettled.get_or_insert(key);
            }
        }
        Ok(())
    }

    /// A table that the pipeline has folded into under what its file said before. What it can't say keeps objects.
    async fn former(&self, name: &str, before: Timestamp) -> Result<Option<Fed>, Error> {
        let Ok(table) = name.parse() else { return Ok(None) };
        let fold = self.fold.named(&table);
        match fold.retained(before).await {
            Ok(retained) => Ok(retained.map(|retained| Fed { fold, retained })),
            Err(fold::Error::Stopped { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes what folds of many tables have left of their beginnings and ends, once none of them looks at it any more.
    async fn begun(&self, date: Timestamp) -> Result<(), Error> {
        if self.settings.dry_run {
            return Ok(());
        }
        let store = self.fold.store.as_ref();
        let before = key::begun(&self.fold.id, date.plus_micros(-BEGUN_MICROS), 0);
        let mut continuation: Option<String> = None;
        loop {
            let page = store.list(&key::begun_prefix(&self.fold.id), None, continuation.as_deref()).await?;
            for object in page.objects {
                if object.key >= before {
                    return Ok(());
                }
                store.delete(&object.key).await?;
            }
            match page.next {
                Some(next) => continuation = Some(next),
                None => return Ok(()),
            }
        }
    }
}
