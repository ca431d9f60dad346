//! A pause: `pipelines/<name>/paused.json`. Folds look for it when they start; ingest is paused at its mapping, and the
//! embedded `ingest` looks here too.

use bytes::Bytes;
use model::clock::Timestamp;
use model::run::Stage;
use serde::{Deserialize, Serialize};
use staging::key;
use staging::store::{self, Store};

use crate::error::Error;
use crate::rewind::WHY;

/// What is held back, since when and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// The stage; every one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// Since when. Text, since a person may have written it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Pause {
    /// Whether a rollback left it: what follows is `recover`'s to decide, which looks at what would be missing.
    #[must_use]
    pub fn is_of_rollback(&self) -> bool {
        self.why.as_ref().is_some_and(|why| why.starts_with(WHY))
    }

    /// Whether it holds a stage back.
    #[must_use]
    pub fn holds(&self, stage: Stage) -> bool {
        self.stage.is_none_or(|held| held == stage)
    }
}

/// The pause of a pipeline. One that can't be read holds everything: somebody wanted something held.
///
/// # Errors
/// When the store fails.
pub async fn read(store: &dyn Store, name: &str) -> Result<Option<Pause>, Error> {
    match store.get(&key::paused(name)).await {
        Ok(body) => Ok(Some(serde_json::from_slice(&body).unwrap_or_default())),
        Err(store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What a pause would say beside what is paused already: two stages make it hold everything.
#[must_use]
pub fn with(before: Option<Pause>, stage: Option<Stage>, why: Option<String>, now: Timestamp) -> Pause {
    match before {
        None => Pause { stage, since: Some(now.to_string()), why },
        Some(before) => Pause {
            stage: if before.stage == stage { stage } else { None },
            since: before.since.or_else(|| Some(now.to_string())),
            why: why.or(before.why),
        },
    }
}

/// What is left of a pause once a stage, or everything, goes on.
#[must_use]
pub fn without(before: Pause, stage: Option<Stage>) -> Option<Pause> {
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
    use super::*;

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
}
