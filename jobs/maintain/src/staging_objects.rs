//! Staged objects: every one is looked at, also those from before the minute that folds list from.

use fold::retained::{Need, Retained};
use model::mutation::{self, Mutation};
use staging::list::{self, Listed};
use staging::object::{self, Object};

use crate::error::Error;
use crate::report::Report;
use crate::run::Maintain;

impl Maintain {
    pub(crate) async fn staging(&self) -> Result<Report, Error> {
        let (store, table) = (self.fold.store.as_ref(), self.fold.pipeline.table.name.to_string());
        let mut report = Report { name: table, action: "staging", ..Report::default() };
        let listing = list::list_all(store, &self.fold.id, None).await?;
        report.files_before = listing.objects.len() as u64;
        report.files_after = report.files_before;
        let before = self.before(listing.date);
        let Some(mut retained) = self.fold.retained(before).await? else {
            report.held_by = Some("the pipeline has not folded yet".to_owned());
            return Ok(report);
        };
        if retained.then.is_none() {
            report.held_by = Some(format!(
                "no retained snapshot of the pipeline is from before {before}: the table is younger, or its snapshots expire \
                 sooner than the retention"
            ));
        }
        for listed in listing.objects {
            // No snapshot that is old enough can have settled what was staged after it.
            if listed.key.minute.start() > before {
                break;
            }
            self.staged(&listed, &mut retained, &mut report).await?;
        }
        self.settlements(&retained, before, &mut report).await?;
        Ok(report)
    }

    async fn staged(&self, listed: &Listed, retained: &mut Retained, report: &mut Report) -> Result<(), Error> {
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
        let elsewhere = footer.tables.iter().any(|t| t.rows > 0 && t.name != report.name);
        let need = match &mut retained.then {
            Some(then) if !elsewhere => self.fold.need(then, &key, listed.key.minute, &footer).await?,
            Some(_) => Need::Unsettled,
            None => Need::Unproved,
        };
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
                if listed.key.minute < retained.low_minute {
                    tracing::warn!(key, "a staged object is not settled, and folds do not list it any more");
                    report.overlooked.push(key.clone());
                }
                report.oldest_unsettled.get_or_insert(key);
            }
        }
        Ok(())
    }
}
