//! Rows that are staged for a table which is not, or no longer, the pipeline's: its name was another one once, or its route was.
//! To settle them in another table's ledger would lose them, unless they are in their own table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::clock::Timestamp;
use pipeline::resolved::TableName;

use crate::error::Error;
use crate::intake::{self, Found, Intake, Shared};
use crate::plan::plan;
use crate::run::Fold;
use crate::state::State;

/// Objects whose footers are read to foresee what a fold would stop at.
const FORESEEN_OBJECTS_MAX: usize = 1000;

/// A staged object, and the rows that it holds for one table.
type Held<'f> = (&'f Found, u64);

impl Fold {
    /// The fold of a table by what the pipeline says now, whatever tables it has.
    #[must_use]
    pub fn named(&self, table: &TableName) -> Self {
        Self { pipeline: Arc::new(self.pipeline.named(table)), ..self.clone() }
    }

    /// Makes sure that the rows which objects hold for tables that are not the pipeline's are settled: in `own`, or in the
    /// ledger of the table that they are for.
    ///
    /// # Errors
    /// [`Error::Stopped`] (`fold.table_changed`) where some are not; the store's and the catalog's.
    pub(crate) async fn settled_elsewhere(
        &self,
        intake: &Intake,
        own: Option<&State>,
        is_own: impl Fn(&str) -> bool,
    ) -> Result<(), Error> {
        let mut by_table: BTreeMap<&str, Vec<Held<'_>>> = BTreeMap::new();
        for found in &intake.objects {
            for table in found.footer.tables.iter().filter(|table| table.rows > 0 && !is_own(&table.name)) {
                by_table.entry(&table.name).or_default().push((found, table.rows));
            }
        }
        for (name, mut held) in by_table {
            if let Some(own) = own.filter(|own| !own.first_run) {
                held = self.unsettled(own, held, intake.date).await?;
            }
            if !held.is_empty()
                && let Some(former) = self.former(name).await?
            {
                held = self.unsettled(&former, held, intake.date).await?;
            }
            if let Some((found, rows)) = held.first() {
                return Err(self.changed(name, found, *rows));
            }
        }
        Ok(())
    }

    /// Makes sure that nothing staged is for a table that is not the pipeline's, as far as the newest objects tell.
    ///
    /// # Errors
    /// As [`Fold::settled_elsewhere`].
    pub(crate) async fn foresee_tables(&self, own: Option<&State>) -> Result<(), Error> {
        let store = self.store.as_ref();
        let low_minute = own.filter(|own| !own.first_run).map(|own| own.ledger.low_minute);
        let shared = Shared::list(store, &self.id, low_minute, self.clock.now()).await?;
        if shared.objects().len() > FORESEEN_OBJECTS_MAX {
            return Ok(());
        }
        let (none, ledger) = (BTreeMap::new(), own.map(|own| &own.ledger));
        let folded = match own {
            Some(own) => own.folded(store, &self.id).await?,
            None => BTreeSet::new(),
        };
        let intake = intake::take(store, &self.id, low_minute, &folded, &none, ledger, Some(&shared)).await?;
        let name = self.pipeline.table.name.to_string();
        self.settled_elsewhere(&intake, own, |table| table == name).await
    }

    /// Those of some objects that a table has not settled whole: something of them would be admitted, or something new be said
    /// of their offsets.
    async fn unsettled<'f>(&self, state: &State, held: Vec<Held<'f>>, date: Timestamp) -> Result<Vec<Held<'f>>, Error> {
        let ledger = &state.ledger;
        // The table may count from epochs that whoever asks knows nothing of.
        let counted = |found: &Found| {
            let mut counted = Found { limits: None, ..found.clone() };
            counted.footer.coverage = ledger.counted_coverage(&found.footer.coverage, found.minute).ok()?;
            Some(counted)
        };
        let objects: Vec<Option<Found>> = held.iter().map(|(found, _)| counted(found)).collect();
        let all = Intake::of(objects.iter().flatten().cloned().collect(), date);
        let undelivered = state.undelivered(self.store.as_ref(), &self.id, &all).await?;
        let is_settled = |found: Found| {
            let plan = plan(ledger, &undelivered, &Intake { may_skip: true, ..Intake::of(vec![found], date) });
            plan.is_empty() && !plan.objects.is_empty()
        };
        let held = held.into_iter().zip(objects);
        Ok(held.filter_map(|(held, found)| found.is_none_or(|found| !is_settled(found)).then_some(held)).collect())
    }

    /// The state of a table that the pipeline has folded into, whatever it says now. What can't be a witness is none.
    async fn former(&self, name: &str) -> Result<Option<State>, Error> {
        let Ok(table) = name.parse::<TableName>() else { return Ok(None) };
        let Some(loaded) = self.catalog.load(&table).await? else { return Ok(None) };
        let pipeline = self.named(&table).pipeline;
        match State::read(self.store.as_ref(), &self.io, &pipeline, &self.id, loaded).await {
            Ok(state) => Ok(Some(state).filter(|state| !state.first_run)),
            Err(Error::Stopped { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn changed(&self, name: &str, found: &Found, rows: u64) -> Error {
        let now = match &self.pipeline.route {
            Some(route) => route.written().to_string(),
            None => self.pipeline.table.name.to_string(),
        };
        let namespace = name.rsplit_once('.').map_or("", |(namespace, _)| namespace);
        let both = format!("`name = \"{namespace}.{{topic}}\"`, say");
        Error::Stopped {
            code: "fold.table_changed",
            message: format!(
                "`{}` holds {rows} rows for {name}, which are not in it yet, and the pipeline now says {now}",
                found.key
            ),
            remedy: format!(
                "set the table's name back so that it is {name}, fold until nothing is left, then change it; where rows wait for \
                 both, fold once with a name that fits both ({both}): each goes to the table that it was staged for; where \
                 the table itself was renamed, give it that name for as long"
            ),
        }
    }
}
