//! Settlements and ledgers that nothing names any more.

use fold::retained::Retained;
use model::clock::Timestamp;
use model::settlement::Settlement;
use staging::key;

use crate::error::Error;
use crate::report::Report;
use crate::run::Maintain;

impl Maintain {
    /// Removes settlements of this table that no retained snapshot and no property names, with their ledgers. A young one
    /// stays: it is written before the commit that names it. Those of other tables of this name stay too: they tell that a
    /// table was lost.
    pub(crate) async fn settlements(
        &self,
        retained: &Retained,
        before: Timestamp,
        report: &mut Report,
    ) -> Result<(), Error> {
        let store = self.fold.store.as_ref();
        let prefix = key::settled_prefix(&self.fold.id, &retained.table);
        let mut continuation: Option<String> = None;
        loop {
            let page = store.list(&prefix, None, continuation.as_deref()).await?;
            for object in page.objects {
                // A ledger goes with its settlement: by itself it does not say when it was written.
                if key::is_ledger(&object.key) || retained.named.contains(&object.key) {
                    continue;
                }
                let body = match store.get(&object.key).await {
                    Ok(body) => body,
                    Err(error) if error.is_not_found() => continue,
                    Err(error) => return Err(error.into()),
                };
                let Ok(settlement) = Settlement::from_json(&body) else { continue };
                let ledger = key::ledger(&self.fold.id, &retained.table, &settlement.commit);
                let own = key::settlement(&self.fold.id, &retained.table, &settlement.commit) == object.key;
                if !own || settlement.at >= before || retained.named.contains(&ledger) {
                    continue;
                }
                if store.head(&ledger).await?.is_some() {
                    self.remove(&ledger, report).await?;
                }
                self.remove(&object.key, report).await?;
            }
            match page.next {
                Some(next) => continuation = Some(next),
                None => return Ok(()),
            }
        }
    }

    async fn remove(&self, key: &str, report: &mut Report) -> Result<(), Error> {
        if !self.settings.dry_run {
            self.fold.store.delete(key).await?;
        }
        report.settlements_removed += 1;
        report.files_removed += 1;
        Ok(())
    }
}
