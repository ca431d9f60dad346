//! A pause: `pipelines/<name>/paused.json`. Folds look for it when they start; ingest is paused at its mapping, and the
//! embedded `ingest` looks here too.

use bytes::Bytes;
use model::clock::Timestamp;
use model::run::Stage;
use serde::{Deserialize, Serialize};
use staging::key;
use staging::store::{self, Store};

use crate::error::Error;

/// What is held back, since when and why: by a person, by a rollback, or by both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// The rollback that holds folds back, as a sentence: what follows is `recover`'s to decide, which looks at what would be
    /// missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<String>,
    /// Whether there is no person's pause beside the rollback's; the members below are a person's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rollback_alone: bool,
    /// The stage; every one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// Since when. Text, since a person may have written it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Whether its document could not be read.
    #[serde(skip)]
    pub unreadable: bool,
}

impl Pause {
    /// What it says to whoever it holds back.
    #[must_use]
    pub fn message(&self, pipeline: &str) -> String {
        let since = self.since.as_ref().map_or_else(String::new, |since| format!(" since {since}"));
        let why = match &self.why {
            _ if self.unreadable => format!(", by a document that can't be read (`{}`)", key::paused(pipeline)),
            Some(why) => format!(": {why}"),
            None => "; no reason was left".to_owned(),
        };
        match &self.rollback {
            Some(rollback) if self.rollback_alone => format!("pipeline {pipeline} is paused{since}: {rollback}"),
            Some(rollback) => format!("pipeline {pipeline} is paused{since}{why}; and {rollback}"),
            None => format!("pipeline {pipeline} is paused{since}{why}"),
        }
    }

    /// Whether it holds a stage back.
    #[must_use]
    pub fn holds(&self, stage: Stage) -> bool {
        let by_rollback = self.rollback.is_some() && stage == Stage::Fold;
        by_rollback || (!self.rollback_alone && self.stage.is_none_or(|held| held == stage))
    }
}

/// The pause of a pipeline. One that can't be read holds everything: somebody wanted something held.
///
/// # Errors
/// When the store fails.
pub async fn read(store: &dyn Store, name: &str) -> Result<Option<Pause>, Error> {
    match store.get(&key::paused(name)).await {
        Ok(body) => {
            let unreadable = Pause { unreadable: true, ..Pause::default() };
            Ok(Some(serde_json::from_slice(&body).unwrap_or(unreadable)))
        }
        Err(store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Refuses to go on where a pipeline's stage is paused.
///
/// # Errors
/// [`Error::Paused`] while the pause stands; the store's.
pub async fn refuse(store: &dyn Store, name: &str, stage: Stage) -> Result<(), Error> {
    match read(store, name).await? {
        Some(pause) if pause.holds(stage) => Err(Error::Paused(pause.message(name))),
        _ => Ok(()),
    }
}

/// What a pause would say beside what is paused already: two stages make it hold everything.
#[must_use]
pub fn with(before: Option<Pause>, stage: Option<Stage>, why: Option<String>, now: Timestamp) -> Pause {
    match before {
        None => Pause { stage, since: Some(now.to_string()), why, ..Pause::default() },
        Some(Pause { rollback, rollback_alone: true, .. }) => {
            Pause { rollback, stage, since: Some(now.to_string()), why, ..Pause::default() }
        }
        Some(before) => Pause {
            stage: if before.stage == stage { stage } else { None },
            since: before.since.or_else(|| Some(now.to_string())),
            why: why.or(before.why),
            rollback: before.rollback,
            ..Pause::default()
        },
    }
}

/// What a pause would say once a rollback holds folds back, too.
pub(crate) fn with_rollback(before: Option<Pause>, rollback: String, now: Timestamp) -> Pause {
    let alone = Pause { rollback_alone: true, since: Some(now.to_string()), ..Pause::default() };
    Pause { rollback: Some(rollback), ..before.unwrap_or(alone) }
}

/// What is left of a pause once what follows on a rollback is decided.
pub(crate) fn without_rollback(before: Pause) -> Option<Pause> {
    (!before.rollback_alone).then_some(Pause { rollback: None, ..before })
}

/// What is left of a pause once a stage, or everything, goes on. A rollback's is not a person's to lift.
#[must_use]
pub fn without(before: Pause, stage: Option<Stage>) -> Option<Pause> {
    if before.rollback_alone {
        return Some(before);
    }
    let rollback = before.rollback.clone();
    let left = without_persons(before, stage);
    match (left, rollback) {
        (None, Some(rollback)) => Some(Pause { rollback: Some(rollback), rollback_alone: true, ..Pause::default() }),
        (left, _) => left,
    }
}

fn without_persons(before: Pause, stage: Option<Stage>) -> Option<Pause> {
    match (before.stage, stage) {
        (_, None) => None,
        (Some(held), Some(stage)) => (held != stage).then_some(before),
        // Maintenance is never paused alone.
        (None, Some(Stage::Ingest)) => Some(Pause { stage: Some(Stage::Fold), ..before }),
        (None, Some(_)) => Some(Pause { stage: Some(Stage::Ingest), ..before }),
    }
}

/// Stores a pause, or takes it away.
///
/// # Errors
/// When the store fails.
pub async fn write(store: &dyn Store, name: &str, pause: Option<&Pause>) -> Result<(), Error> {
    let key = key::paused(name);
    match pause {
        Some(pause) => {
            store.put(&key, Bytes::from(serde_json::to_vec(pause)?)).await?;
        }
        None => store.delete(&key).await?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::clock::ManualClock;
    use testkit::store_memory::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn a_pause_holds_its_stage_and_one_that_cannot_be_read_holds_all_and_says_so() {
        let (both, said) = ([Stage::Ingest, Stage::Fold], "pipeline orders is paused");
        for (body, held, message) in [
            (
                r#"{"stage":"fold","since":"2026-11-02T08:00:00Z","why":"moved"}"#,
                &both[1..],
                "since 2026-11-02T08:00:00Z: moved",
            ),
            (r#"{"stage":"ingest"}"#, &both[..1], "no reason was left"),
            ("{}", &both, "no reason was left"),
            ("what?", &both, "can't be read (`pipelines/orders/paused.json`)"),
        ] {
            let store = MemoryStore::new(Arc::new(ManualClock::new(Timestamp::from_micros(1))));
            store.insert(&key::paused("orders"), Bytes::from(body));
            for stage in both {
                let found = refuse(&store, "orders", stage).await.map_err(|error| error.to_string());
                assert_eq!(found.is_err(), held.contains(&stage), "{body} {stage:?}");
                if let Err(text) = found {
                    assert!(text.starts_with(said) && text.ends_with(message), "{text}");
                }
                assert!(refuse(&store, "others", stage).await.is_ok());
            }
        }
    }

    #[test]
    fn stages_are_held_and_let_go_one_by_one() {
        let now = Timestamp::from_micros(1);
        let (ingest, fold) = (Some(Stage::Ingest), Some(Stage::Fold));
        let one = with(None, fold, Some("vacation".to_owned()), now);
        assert!(one.holds(Stage::Fold) && !one.holds(Stage::Ingest));
        let both = with(Some(one.clone()), ingest, None, Timestamp::from_micros(2));
        assert_eq!((both.stage, &both.since, both.why.as_deref()), (None, &Some(now.to_string()), Some("vacation")));
        assert!(both.holds(Stage::Fold) && both.holds(Stage::Ingest));
        assert_eq!(without(both.clone(), ingest).and_then(|p| p.stage), fold);
        assert_eq!(without(both.clone(), fold).and_then(|p| p.stage), ingest);
        assert_eq!(without(both, None), None);
        assert_eq!(without(one.clone(), ingest), Some(one.clone()));
        assert_eq!(without(one, fold), None);
    }

    #[test]
    fn a_rollbacks_pause_and_a_persons_are_lifted_each_by_its_own() {
        let now = Timestamp::from_micros(1);
        let rolled = with_rollback(None, "rolled back to snapshot 7".to_owned(), now);
        assert!(rolled.holds(Stage::Fold) && !rolled.holds(Stage::Ingest));
        assert_eq!(without(rolled.clone(), None), Some(rolled.clone()));
        assert_eq!(without_rollback(rolled.clone()), None);
        // A person pauses on top, before or after it, and says what sounds like a rollback.
        let why = || Some("rolled back? no: holidays".to_owned());
        let persons = with(None, Some(Stage::Ingest), why(), now);
        let after = with(Some(rolled), Some(Stage::Ingest), why(), now);
        let before = with_rollback(Some(persons.clone()), "rolled back to snapshot 7".to_owned(), now);
        for both in [after, before] {
            assert!(both.holds(Stage::Fold) && both.holds(Stage::Ingest));
            let text = both.message("orders");
            assert!(text.contains("holidays") && text.contains("snapshot 7"), "{text}");
            assert_eq!(without_rollback(both.clone()), Some(persons.clone()));
            let left = without(both, None).unwrap();
            assert!(left.holds(Stage::Fold) && !left.holds(Stage::Ingest) && left.rollback_alone);
            let again: Pause = serde_json::from_slice(&serde_json::to_vec(&left).unwrap()).unwrap();
            assert_eq!(again, left);
        }
        assert_eq!(without_rollback(persons.clone()), Some(persons));
    }
}
