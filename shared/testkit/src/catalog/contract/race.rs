//! Several that change one table.

use iceberg::spec::{NestedField, PrimitiveType, Schema, Type};
use iceberg::{TableRequirement, TableUpdate};
use model::failure::Kind;
use model::id::SeededIds;
use table::catalog::{Catalog, Error, Loaded};
use table::snapshot::{self, Change, Prepared};

use super::{
    Bench, Verdict, commit, file, kind_of, live_files, load, made, panic_with, set, terms, writers_form_one_line,
};

/// An append of one file, made from `base`.
pub(super) async fn appending(base: &Loaded, path: &str, bench: &dyn Bench, seed: u64) -> Prepared {
    let (change, ids) = (Change::append(vec![file(path.to_owned(), 10)]), SeededIds::new(seed));
    match snapshot::prepare(base, change, terms(base), &bench.io(), &ids).await {
        Ok(attempt) => attempt,
        Err(e) => panic_with("prepare", &Error::caused(e.kind(), "attempt", e)),
    }
}

/// Adds a column as a fold does: under the next id, if that is the next id still.
async fn add_column(catalog: &dyn Catalog, base: &Loaded, name: &str) -> Result<Loaded, Error> {
    let (schema, last) = (base.metadata.current_schema(), base.metadata.last_column_id());
    let column = NestedField::optional(last + 1, name, Type::Primitive(PrimitiveType::String));
    let fields = schema.as_struct().fields().iter().cloned().chain([column.into()]);
    let with = Schema::builder().with_schema_id(schema.schema_id() + 1).with_fields(fields).build();
    let with = with.map_err(|e| Error::caused(Kind::Bug, "a schema", e))?;
    let requirements = vec![
        TableRequirement::UuidMatch { uuid: base.metadata.uuid() },
        TableRequirement::LastAssignedFieldIdMatch { last_assigned_field_id: last },
        TableRequirement::CurrentSchemaIdMatch { current_schema_id: schema.schema_id() },
    ];
    let updates = vec![TableUpdate::AddSchema { schema: with }, TableUpdate::SetCurrentSchema { schema_id: -1 }];
    catalog.commit(base, requirements, updates).await
}

fn columns(table: &Loaded) -> Vec<(&str, i32)> {
    table.metadata.current_schema().as_struct().fields().iter().map(|f| (f.name.as_str(), f.id)).collect()
}

/// Two add a column at once: one wins, the other is told, and has its own id once it has planned anew.
pub(super) async fn schemas(bench: &dyn Bench) -> Verdict {
    let (one, name, base) = made(bench, "schema_race").await;
    let two = bench.open().await;
    let stale = load(two.as_ref(), &name).await;
    let outcomes = tokio::join!(add_column(one.as_ref(), &base, "a"), add_column(two.as_ref(), &stale, "b"));
    let (first, second) = match outcomes {
        (Ok(_), Err(lost)) => {
            assert_eq!(lost.kind(), Kind::Conflict, "{lost}");
            ("a", "b")
        }
        (Err(lost), Ok(_)) => {
            assert_eq!(lost.kind(), Kind::Conflict, "{lost}");
            ("b", "a")
        }
        (one, two) => {
            let both = format!("{:?} and {:?}", kind_of(one), kind_of(two));
            panic_with("add two columns at once", &Error::failed(Kind::Bug, both))
        }
    };
    let now = load(two.as_ref(), &name).await;
    assert_eq!(columns(&now), [("id", 1), (first, 2)]);
    assert_eq!(kind_of(add_column(two.as_ref(), &now, second).await), None);
    let now = load(one.as_ref(), &name).await;
    assert_eq!(columns(&now), [("id", 1), (first, 2), (second, 3)]);
    assert_eq!(now.metadata.last_column_id(), 3);
    Verdict::Kept
}

/// Another writer's change between load and commit. A snapshot is a conflict everywhere; of a property or a column that none of our
/// requirements tells of, a catalog that compares requirements alone keeps both.
pub(super) async fn foreign_commits(bench: &dyn Bench) -> Verdict {
    for what in ["snapshot", "property", "schema"] {
        let (ours, name, base) = made(bench, &format!("foreign_{what}")).await;
        let theirs = bench.open().await;
        let found = load(theirs.as_ref(), &name).await;
        let path = |name: &str| format!("{}/data/{name}.parquet", base.metadata.location());
        let attempt = appending(&base, &path("ours"), bench, 1).await;
        let changed = match what {
            "snapshot" => commit(theirs.as_ref(), &found, &appending(&found, &path("theirs"), bench, 2).await).await,
            "property" => theirs.commit(&found, vec![], set("theirs", "1")).await,
            _ => add_column(theirs.as_ref(), &found, "theirs").await,
        };
        assert_eq!(kind_of(changed), None, "{what}");
        let outcome = kind_of(commit(ours.as_ref(), &base, &attempt).await);
        let is_compared = bench.swaps_exactly() || what == "snapshot";
        assert_eq!(outcome, is_compared.then_some(Kind::Conflict), "{what}");

        // Whoever was refused plans anew, and nobody's change is gone.
        let now = load(ours.as_ref(), &name).await;
        if is_compared {
            let again = attempt.rebase(&now, terms(&now), &bench.io(), &SeededIds::new(3)).await;
            let again = again.unwrap_or_else(|e| panic_with("rebase", &Error::caused(e.kind(), "attempt", e)));
            assert_eq!(kind_of(commit(ours.as_ref(), &now, &again).await), None, "{what}");
        }
        let now = load(theirs.as_ref(), &name).await;
        let files = if what == "snapshot" { vec![path("ours"), path("theirs")] } else { vec![path("ours")] };
        assert_eq!(live_files(&now, &bench.io()).await, files, "{what}");
        assert_eq!(now.metadata.properties().contains_key("theirs"), what == "property");
        assert_eq!(columns(&now).len(), if what == "schema" { 2 } else { 1 });
    }
    if bench.swaps_exactly() { Verdict::Kept } else { Verdict::Otherwise("requirements alone") }
}

/// A table that was dropped, and made again under its name, while somebody holds the old one: nothing is committed to the new one.
pub(super) async fn made_again(bench: &dyn Bench) -> Verdict {
    let (catalog, name, old) = made(bench, "made_again").await;
    if !bench.forget(&name).await {
        return Verdict::Otherwise("not asked");
    }
    let attempt = appending(&old, &format!("{}/data/old.parquet", old.metadata.location()), bench, 1).await;
    assert_eq!(kind_of(catalog.commit(&old, vec![], set("a", "1")).await), Some(Kind::Conflict), "dropped");
    assert_eq!(kind_of(commit(catalog.as_ref(), &old, &attempt).await), Some(Kind::Conflict), "dropped");
    let (_, _, new) = made(bench, "made_again").await;
    assert_ne!(new.metadata.uuid(), old.metadata.uuid());
    assert_eq!(kind_of(catalog.commit(&old, vec![], set("a", "1")).await), Some(Kind::Conflict), "made again");
    assert_eq!(kind_of(commit(catalog.as_ref(), &old, &attempt).await), Some(Kind::Conflict), "made again");
    let now = load(catalog.as_ref(), &name).await;
    assert_eq!((now.metadata_location, now.metadata.uuid()), (new.metadata_location, new.metadata.uuid()));
    Verdict::Kept
}

/// O-33: two load version 7, one appends, the other's append on version 7 is refused, and stands after a second look. Then many at once.
pub(super) async fn no_update_is_lost(bench: &dyn Bench) -> Verdict {
    let (one, name, mut base) = made(bench, "o33").await;
    for version in 1..7 {
        base = match one.commit(&base, vec![], set("version", &version.to_string())).await {
            Ok(table) => table,
            Err(e) => panic_with("commit", &e),
        };
    }
    let two = bench.open().await;
    let [seen_by_one, seen_by_two] = [load(one.as_ref(), &name).await, load(two.as_ref(), &name).await];
    assert_eq!(seen_by_one.metadata_location, seen_by_two.metadata_location);
    let path = |name: &str| format!("{}/data/{name}.parquet", base.metadata.location());
    let first = appending(&seen_by_one, &path("f1"), bench, 1).await;
    let second = appending(&seen_by_two, &path("f2"), bench, 2).await;
    assert_eq!(kind_of(commit(one.as_ref(), &seen_by_one, &first).await), None);
    assert_eq!(kind_of(commit(two.as_ref(), &seen_by_two, &second).await), Some(Kind::Conflict));
    let now = load(two.as_ref(), &name).await;
    let again = appending(&now, &path("f2"), bench, 3).await;
    assert_eq!(kind_of(commit(two.as_ref(), &now, &again).await), None);
    let now = load(one.as_ref(), &name).await;
    assert_eq!(live_files(&now, &bench.io()).await, [path("f1"), path("f2")]);
    assert_eq!(snapshot::ancestry(&now.metadata).count(), 2);
    writers_form_one_line(bench, 20, 10).await;
    Verdict::Kept
}
