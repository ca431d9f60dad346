//! Rows that are staged for a table which is not, or no longer, the pipeline's: its name was another one once, or its route was.
//! To settle them in another table's ledger would lose them, unless they are in their own table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::ledger::Ledger;
use model::verdict::Undelivered;
use pipeline::resolved::{Table, TableName};

use crate::error::Error;
use crate::intake::{self, Found, Intake, Shared};
use crate::plan::plan;
use crate::run::Fold;
use crate::state::State;

/// Objects whose footers are read to foresee what a fold would stop at.
const FORESEEN_OBJECTS_MAX: usize = 1000;

/// Who says that rows are where they belong: a table's ledger, with the exact offsets that it counts as never delivered.
struct Witness<'a> {
    ledger: &'a Ledger,
    undelivered: Undelivered,
}

impl Witness<'_> {
    /// Whether all of an object was settled: nothing of it would be admitted, and nothing new be said of its offsets.
    fn has_settled(&self, found: &Found, intake: &Intake) -> bool {
        let mut found = Found { limits: None, ..found.clone() };
        // The other table may count from epochs that this one knows nothing of.
        match found.footer.coverage.renamed(|at| self.ledger.counted(at, found.minute)) {
            Ok(coverage) => found.footer.coverage = coverage,
            Err(_) => return false,
        }
        let alone = Intake {
            objects: vec![found],
            later: Vec::new(),
            quarantined: Vec::new(),
            foreign: Vec::new(),
            date: intake.date,
            may_skip: true,
        };
        let plan = plan(self.ledger, &self.undelivered, &alone);
        plan.is_empty() && !plan.objects.is_empty()
    }
}

impl Fold {
    /// The fold of a table by what the pipeline says now, whatever tables it has.
    #[must_use]
    pub fn named(&self, table: &TableName) -> Self {
        let mut pipeline = (*self.pipeline).clone();
        pipeline.table = Table { name: table.clone(), ..pipeline.settings(&table.name).clone() };
        pipeline.tables.clear();
        Self { pipeline: Arc::new(pipeline), ..self.clone() }
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
        let mut by_table: BTreeMap<&str, Vec<(&Found, u64)>> = BTreeMap::new();
        for found in &intake.objects {
            for table in found.footer.tables.iter().filter(|table| table.rows > 0 && !is_own(&table.name)) {
                by_table.entry(&table.name).or_default().push((found, table.rows));
            }
        }
        if by_table.is_empty() {
            return Ok(());
        }
        if let Some(own) = own.filter(|own| !own.first_run) {
            let own = self.witness(own, intake).await?;
            for found in by_table.values_mut() {
                found.retain(|(found, _)| !own.has_settled(found, intake));
            }
        }
        for (name, mut found) in by_table.into_iter().filter(|(_, found)| !found.is_empty()) {
            if let Some(state) = self.former(name).await? {
                let former = self.witness(&state, intake).await?;
                found.retain(|(found, _)| !former.has_settled(found, intake));
            }
            if let Some((found, rows)) = found.first() {
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

    async fn witness<'a>(&self, state: &'a State, intake: &Intake) -> Result<Witness<'a>, Error> {
        let mut counted = intake.clone();
        for found in &mut counted.objects {
            if let Ok(coverage) = found.footer.coverage.renamed(|at| state.ledger.counted(at, found.minute)) {
                found.footer.coverage = coverage;
            }
        }
        let undelivered = state.undelivered(self.store.as_ref(), &self.id, &counted).await?;
        Ok(Witness { ledger: &state.ledger, undelivered })
    }

    /// The state of a table that the pipeline has folded into, whatever it says now. What can't be a witness is none.
    async fn former(&self, name: &str) -> Result<Option<State>, Error> {
        let Ok(table) = name.parse::<TableName>() else { return Ok(None) };
        let Some(loaded) = self.catalog.load(&table).await? else { return Ok(None) };
        let pipeline = self.named(&table).pipeline;
        match State::read(self.store.as_ref(), &pipeline, &self.id, loaded).await {
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
