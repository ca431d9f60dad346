//! A pipeline whose tables have other names than before: what was folded under the old ones is no hindrance, what was not
//! stops the fold.

use pipeline::route::{Part, Route};

use super::many::{ledger_of, stage, table};
use super::*;

/// Stages rows for a table of the pipeline's, or of one that was.
fn stage_for(world: &World, name: &str, parts: &[&str]) {
    let minute = world.clock.now().minute();
    let (footer, rows) = invocation(&world.id, minute, parts);
    let rows = TableRows { table: format!("db.{name}"), ..rows };
    let hash = ObjectHash::new(u128::from(world.ids.next_u64()));
    let key = StagedKey { pipeline: world.id.clone(), minute, hash };
    world.store.insert(&key.to_string(), object::encode(&footer, &[rows]).unwrap());
}

fn rename(world: &mut World, name: &str) {
    let mut renamed = world.pipeline.as_ref().clone();
    renamed.table.name = table(name);
    world.pipeline = Arc::new(renamed);
}

#[tokio::test]
async fn a_new_name_begins_a_new_table_once_the_old_one_has_its_rows() {
    let mut world = World::new(31);
    let old = world.pipeline.table.name.name.clone();
    stage_for(&world, &old, &["0:0:rr.dr"]);
    world.fold().run().await.unwrap();
    world.wait(1);
    stage_for(&world, &old, &["0:5:rr"]);
    rename(&mut world, "purchases");
    stage_for(&world, "purchases", &["0:7:rrr"]);
    // Two of the old table's rows are not in it yet. A plan says so, too.
    for stopped in [world.fold().run().await.map(drop), world.fold().stands().await] {
        let error = stopped.unwrap_err();
        assert_eq!(error.code(), "fold.table_changed");
        assert!(error.to_string().contains(&format!("2 rows for db.{old}")), "{error}");
        assert!(error.to_string().contains("db.purchases"), "{error}");
    }
    assert!(world.catalog.load(&table("purchases")).await.unwrap().is_none());
    rename(&mut world, &old);
    // What is there for a name to come is as much of a hindrance.
    assert_eq!(world.fold().run().await.unwrap_err().code(), "fold.table_changed");
}

#[tokio::test]
async fn what_the_old_table_has_settled_is_passed_over_for_good() {
    let mut world = World::new(32);
    let old = world.pipeline.table.name.clone();
    stage_for(&world, &old.name, &["0:0:rr.dr"]);
    stage_for(&world, &old.name, &["0:5:rr"]);
    world.fold().run().await.unwrap();
    let ledger = world.ledger().await;
    world.wait(1);
    rename(&mut world, "purchases");
    world.fold().stands().await.unwrap();
    for (n, first) in [7, 10, 13].into_iter().enumerate() {
        stage_for(&world, "purchases", &[&format!("0:{first}:rrr")]);
        world.fold().run().await.unwrap();
        let rows: Vec<_> = (7..10 + 3 * n as i64).map(|offset| (0, offset)).collect();
        assert_eq!(world.rows().await, rows);
        world.wait(40);
    }
    // Each record is in the ledger of both, and in the rows of one.
    let totals = world.ledger().await.totals();
    assert_eq!((totals.rows_added, totals.dead), (9, 1));
    assert_eq!(world.rows_of(&old).await, [(0, 0), (0, 1), (0, 4), (0, 5), (0, 6)]);
    let name = std::mem::replace(&mut Arc::make_mut(&mut world.pipeline).table.name, old);
    assert_eq!(world.ledger().await, ledger);
    // And back again.
    world.fold().stands().await.unwrap();
    world.fold().run().await.unwrap();
    assert_eq!(world.rows().await.len(), 5);
    stage_for(&world, "orders", &["0:16:r"]);
    world.fold().run().await.unwrap();
    assert_eq!((world.rows().await.len(), world.rows_of(&name).await.len()), (6, 9));
}

#[tokio::test]
async fn another_route_goes_on_where_every_table_of_the_old_one_has_its_rows() {
    let mut world = super::many::world(33);
    stage(&world, &["0:0:abba"]);
    world.fold().run().await.unwrap();
    world.wait(1);
    stage(&world, &["0:4:a"]);
    world.fold().run().await.unwrap();
    let old = world.pipeline.clone();
    let route = Route { namespace: vec![Part::Text("other".to_owned())], name: vec![Part::Topic] };
    let mut pipeline = world.pipeline.as_ref().clone();
    pipeline.table.name = route.written();
    pipeline.route = Some(route);
    world.pipeline = Arc::new(pipeline);
    world.wait(1);
    // Tables that were met stay the pipeline's, so their rows find them.
    stage(&world, &["0:5:ab"]);
    world.fold().run().await.unwrap();
    assert_eq!(world.rows_of(&table("a")).await.len(), 4);
    assert_eq!(world.rows_of(&table("b")).await.len(), 3);
    // One that was never met is no table of this route.
    stage(&world, &["0:7:c"]);
    let error = world.fold().run().await.unwrap_err();
    assert_eq!(error.code(), "fold.table_changed");
    assert!(error.to_string().contains("db.c") && error.to_string().contains("other.{topic}"), "{error}");
    world.pipeline = old;
    world.fold().run().await.unwrap();
    assert_eq!(ledger_of(&world, "c").await.totals().rows_added, 1);
}

#[tokio::test]
async fn one_table_out_of_many_passes_over_what_the_others_have() {
    let mut world = super::many::world(34);
    stage(&world, &["0:0:abab"]);
    world.fold().run().await.unwrap();
    let many = world.pipeline.clone();
    let mut single = world.pipeline.as_ref().clone();
    single.route = None;
    single.table.name = table("a");
    world.pipeline = Arc::new(single);
    world.wait(1);
    stage(&world, &["0:4:aa"]);
    world.fold().run().await.unwrap();
    assert_eq!(world.rows().await.len(), 4);
    stage(&world, &["0:6:b"]);
    assert_eq!(world.fold().run().await.unwrap_err().code(), "fold.table_changed");
    world.pipeline = many;
    world.fold().run().await.unwrap();
    assert_eq!(world.rows_of(&table("b")).await.len(), 3);
}

#[tokio::test]
async fn rows_that_wait_under_two_names_go_in_under_a_name_that_fits_both() {
    let mut world = World::new(35);
    stage_for(&world, "orders", &["0:0:rr"]);
    stage_for(&world, "purchases", &["0:2:rrr"]);
    for name in ["orders", "purchases"] {
        rename(&mut world, name);
        let error = world.fold().run().await.unwrap_err();
        assert_eq!(error.code(), "fold.table_changed");
        assert!(error.remedy().unwrap().contains("db.{topic}"), "{error:?}");
    }
    let route = Route { namespace: vec![Part::Text("db".to_owned())], name: vec![Part::Topic] };
    let mut both = world.pipeline.as_ref().clone();
    both.table.name = route.written();
    both.route = Some(route);
    let fold = Fold { pipeline: Arc::new(both), ..world.fold() };
    assert_eq!(fold.run().await.unwrap().failures().count(), 0);
    for (name, offsets) in [("orders", 0..2), ("purchases", 2..5)] {
        assert_eq!(world.rows_of(&table(name)).await, offsets.map(|offset| (0, offset)).collect::<Vec<_>>());
        // Each of the names may stay.
        rename(&mut world, name);
        world.fold().run().await.unwrap();
    }
}
