//! What a maintenance run did.

use serde::Serialize;

/// One table's staged objects and settlements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// `namespace.name`.
    pub name: String,
    /// `staging`.
    pub action: &'static str,
    /// Staged objects there were.
    pub files_before: u64,
    /// Staged objects there are now.
    pub files_after: u64,
    /// Staged objects, settlements and ledgers removed.
    pub files_removed: u64,
    /// Bytes of the staged objects removed.
    pub bytes: u64,
    /// Settlements and ledgers removed.
    pub settlements_removed: u64,
    /// Staged objects older than the retention that stay, since something of them is not settled.
    pub unsettled: u64,
    /// The oldest of these, and of younger ones that no fold has passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_unsettled: Option<String>,
    /// Staged objects that stay since nothing retained proves them settled.
    pub unproved: u64,
    /// Staged objects that can't be read: they stay.
    pub unreadable: u64,
    /// Unsettled objects from before the minute that folds list from: they landed late, and no fold will see them.
    pub overlooked: Vec<String>,
    /// Why nothing could be removed at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_by: Option<String>,
}
