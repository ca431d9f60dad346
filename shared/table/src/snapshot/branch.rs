//! The branch main: how long its snapshots are kept, and moving it.

use iceberg::TableUpdate;
use iceberg::spec::{MAIN_BRANCH, SnapshotReference, SnapshotRetention, TableMetadata};

/// How long snapshots are kept where a table does not say it: Iceberg's default, five days.
const EXPIRY_AGE_MS: i64 = 5 * 86_400_000;

/// Main with its retention; nothing before the first snapshot.
fn main(table: &TableMetadata) -> Option<SnapshotReference> {
    // References are not public, and part of the format.
    let document = serde_json::to_value(table).ok()?;
    serde_json::from_value(document.get("refs")?.get(MAIN_BRANCH)?.clone()).ok()
}

/// The shortest age, in milliseconds, at which a snapshot of main may be expired, as far as the table says it.
#[must_use]
pub fn expiry_age_ms(table: &TableMetadata) -> i64 {
    let property = table.properties().get("history.expire.max-snapshot-age-ms");
    let of_table = property.and_then(|text| text.parse().ok()).unwrap_or(EXPIRY_AGE_MS);
    let of_main = match main(table).map(|main| main.retention) {
        Some(SnapshotRetention::Branch { max_snapshot_age_ms: Some(age), .. }) => age,
        _ => of_table,
    };
    of_table.min(of_main).max(0)
}

/// The update that moves main to a snapshot and keeps its retention.
#[must_use]
pub fn move_main(table: &TableMetadata, snapshot_id: i64) -> TableUpdate {
    let retention = main(table).map_or(
        SnapshotRetention::Branch { min_snapshots_to_keep: None, max_snapshot_age_ms: None, max_ref_age_ms: None },
        |main| main.retention,
    );
    TableUpdate::SetSnapshotRef {
        ref_name: MAIN_BRANCH.to_owned(),
        reference: SnapshotReference { snapshot_id, retention },
    }
}
