//! What a person decides: pauses, going back, topics made again, maintenance.

use model::clock::Clock as _;

use super::*;

#[test]
fn a_pipeline_is_paused_and_goes_on_by_command() {
    let place = Place::with_pipeline();
    let planned = place.done(&["pause", "--stage", "ingest", "--dry-run"]);
    assert_eq!((&planned["state"], &planned["dry_run"]), (&json!("paused"), &json!(true)));
    assert!(!place.path("dir/pipelines/employee/paused.json").exists());
    let paused = place.done(&["pause", "--stage", "ingest", "--why", "moving house"]);
    assert_eq!((&paused["stage"], &paused["why"]), (&json!("ingest"), &json!("moving house")));
    place.write("event.json", events(20, 0.0).remove(0));
    assert_eq!(place.refused(&["ingest", "--event", "event.json"]).0, Exit::TryAgain);
    place.done(&["fold"]);
    place.done(&["pause", "--stage", "fold"]);
    assert_eq!(place.refused(&["fold"]), (Exit::TryAgain, "fold.paused".to_owned()));
    assert_eq!(place.done(&["unpause", "--stage", "ingest"])["stage"], "fold");
    place.done(&["ingest", "--event", "event.json"]);
    assert_eq!(place.refused(&["fold"]).0, Exit::TryAgain);
    assert_eq!(place.done(&["unpause", "--dry-run"])["state"], "running");
    assert_eq!(place.refused(&["fold"]).0, Exit::TryAgain);
    let gone = place.done(&["unpause"]);
    assert_eq!((&gone["state"], gone.get("why")), (&json!("running"), None));
    place.done(&["fold"]);
}

/// A place whose table has two snapshots, with their ids.
fn folded_twice() -> (Place, [i64; 2]) {
    let place = Place::with_pipeline();
    let mut events = events(20_000, 0.0);
    let ids = [0, 1].map(|_| {
        place.write("event.json", events.remove(0));
        place.done(&["ingest", "--event", "event.json"]);
        place.done(&["fold"])["tables"][0]["snapshot_id"].as_i64().unwrap()
    });
    (place, ids)
}

fn rows(place: &Place) -> u64 {
    place.done(&["query", "SELECT count(*) AS n FROM employee"])["rows"][0]["n"].as_u64().unwrap()
}

#[test]
fn going_back_shows_its_plan_and_is_done_on_a_yes_only() {
    let (place, ids) = folded_twice();
    let all = rows(&place);
    let to = format!("snapshot:{}", ids[0]);
    let planned = place.done(&["rollback", "--to", &to, "--dry-run"]);
    assert_eq!((&planned["from"], &planned["to"], &planned["snapshots"]), (&json!(ids[1]), &json!(ids[0]), &json!(1)));
    let offsets = planned["rewound"].as_u64().unwrap();
    assert!(offsets > 0 && planned["missing"] == json!([]) && planned["pipelines"][0]["offsets"] == offsets);
    assert_eq!(place.refused(&["rollback", "--to", &to]), (Exit::Usage, "consent.missing".to_owned()));
    let left = place.run_before(true, "no\n", &["rollback", "--to", &to, "--dir", "dir"]);
    assert_eq!(left.exit, Exit::Usage);
    assert!(left.stderr.contains("main goes back") && left.stderr.contains("nothing was done"), "{}", left.stderr);
    for bad in ["snapshot:x", "yesterday", ""] {
        assert_eq!(place.refused(&["rollback", "--to", bad]), (Exit::Usage, "rollback.to".to_owned()));
    }
    assert_eq!(place.refused(&["rollback", "--to", "-9d"]), (Exit::Usage, "fold.not_on_main".to_owned()));
    assert_eq!(rows(&place), all);

    let left = place.run_before(true, "yes\n", &["rollback", "--to", &to, "--dir", "dir"]);
    assert_eq!(left.exit, Exit::Done, "{}", left.stderr);
    assert_eq!(rows(&place), all - offsets);
    assert_eq!(place.refused(&["fold"]), (Exit::TryAgain, "fold.paused".to_owned()));
    assert_eq!(place.refused(&["recover"]).0, Exit::Usage);
    assert_eq!(place.refused(&["recover", "--refold"]), (Exit::Usage, "consent.missing".to_owned()));
    // What would be missing is looked at by `recover` alone.
    assert_eq!(place.refused(&["unpause"]), (Exit::Usage, "pipeline.rolled_back".to_owned()));
    let recovered = place.done(&["recover", "--refold", "--yes"]);
    assert_eq!((&recovered["rewound"], &recovered["unpauses"]), (&json!(offsets), &json!(true)));
    place.done(&["fold"]);
    assert_eq!(rows(&place), all);
}

#[test]
fn maintenance_leaves_what_is_young_and_says_so() {
    let (place, _) = folded_twice();
    let before = files(&place.path("dir/staging"));
    let planned = place.done(&["maintain", "--only", "staging", "--dry-run"]);
    let table = &planned["tables"][0];
    assert_eq!((&table["action"], &table["files_before"]), (&json!("staging"), &json!(before.len())));
    assert!(table["held_by"].as_str().unwrap().contains("no retained snapshot"), "{table}");
    let done = place.done(&["maintain"]);
    assert_eq!(
        (&done["tables"][0]["files_removed"], &done["tables"][0]["files_after"]),
        (&json!(0), &json!(before.len()))
    );
    assert_eq!(files(&place.path("dir/staging")), before);
    assert_eq!(place.refused(&["maintain", "--only", "everything"]).0, Exit::Usage);
}

#[test]
fn a_catalog_that_is_gone_is_not_taken_for_one_that_never_was() {
    let (place, ids) = folded_twice();
    std::fs::remove_file(place.path("dir/catalog.db")).unwrap();
    let settled = files(&place.path("dir/settled"))[0].parent().unwrap().to_owned();
    let settled = settled.strip_prefix(place.path("dir")).unwrap().to_str().unwrap().to_owned();
    let to = format!("snapshot:{}", ids[0]);
    for command in [
        &["rollback", "--to", &to, "--yes"][..],
        &["recover", "--refold", "--yes"],
        &["reset-source", "--topic", "protobuf-demo-topic-pure", "--yes"],
        &["maintain"],
    ] {
        // The second time round an empty catalog is there.
        for _ in 0..2 {
            let (exit, document) = place.json(command);
            let error = &document["error"];
            assert_eq!((exit, &error["code"]), (Exit::Usage, &json!("fold.table_replaced")), "{document}");
            assert!(error["message"].as_str().unwrap().contains(&settled), "{document}");
            assert!(error["remedy"].as_str().unwrap().contains("bring the catalog or the table back"), "{document}");
            if command[0] == "maintain" {
                assert_eq!(place.refused(&["fold"]).1, "fold.table_replaced");
            }
        }
    }
}

#[test]
fn going_back_is_refused_where_staged_objects_are_gone() {
    let (place, ids) = folded_twice();
    let all = rows(&place);
    for object in files(&place.path("dir/staging")) {
        std::fs::remove_file(object).unwrap();
    }
    let to = format!("snapshot:{}", ids[0]);
    let (exit, planned) = place.json(&["rollback", "--to", &to, "--dry-run"]);
    assert_eq!(exit, Exit::No);
    assert!(planned["missing"][0]["offsets"][0][0].is_u64(), "{planned}");
    assert_eq!(place.refused(&["rollback", "--to", &to, "--yes"]), (Exit::Usage, "fold.would_miss".to_owned()));
    assert_eq!(rows(&place), all);
}

#[test]
fn a_topic_made_again_counts_anew_on_a_yes_only() {
    let (place, _) = folded_twice();
    let topic = "protobuf-demo-topic-pure";
    let unneeded = place.refused(&["reset-source", "--topic", topic, "--yes"]);
    assert_eq!(unneeded, (Exit::Usage, "fold.reset_unneeded".to_owned()));
    let soon = SystemClock.now().plus_micros(120_000_000).to_string();
    let planned = place.done(&["reset-source", "--topic", topic, "--since", &soon, "--dry-run"]);
    assert_eq!((&planned["objects"], &planned["rows_kept"]), (&json!(0), &json!(rows(&place))));
    assert_eq!(
        place.refused(&["reset-source", "--topic", topic, "--since", &soon]),
        (Exit::Usage, "consent.missing".to_owned())
    );
    assert_eq!(
        place.refused(&["reset-source", "--topic", "x", "--yes"]),
        (Exit::Usage, "fold.reset_unknown".to_owned())
    );
    let (_, unknown) = place.json(&["reset-source", "--topic", topic, "--partition", "77", "--yes"]);
    let message = unknown["error"]["message"].as_str().unwrap();
    assert!(message.contains(&format!("partition 77 of topic `{topic}`")), "{message}");
    assert!(message.contains(&format!("what was: topic `{topic}`, partitions 0")), "{message}");
    let done = place.done(&["reset-source", "--topic", topic, "--since", &soon, "--yes"]);
    assert!(done["snapshot_id"].is_i64() && done["counts_as"] != done["source"], "{done}");
    place.done(&["fold"]);
}
