//! A table that is there, and a pipeline that joins it.

use super::planning::faults;
use super::*;

/// A place whose table a pipeline of its own has made, and another pipeline's file for it.
fn joining(change: impl Fn(String) -> String) -> Place {
    let place = Place::with_pipeline();
    let file = include_str!("../../demo/employee.toml");
    let file = file.replace("address = \"address\"", "address = { from = \"address\", required = true }");
    place.write("dir/pipelines/employee.toml", &file);
    place.write("event.json", events(20, 0.0).remove(0));
    place.done(&["ingest", "--event", "event.json"]);
    place.done(&["fold"]);
    let file = file.replace("protobuf-demo-topic-pure", "others");
    let file = file.replace("mode = \"append\"", "exists = \"join\"\nmode = \"append\"");
    place.write("dir/pipelines/joins.toml", change(file));
    place
}

/// Each change as `kind name`, and each fault's code.
fn planned(place: &Place) -> (Exit, Vec<String>, Vec<String>, Value) {
    let left = place.run(&["plan", "joins", "--dir", "dir", "--exit-code", "--json"]);
    let plan = left.document();
    let text = |value: &Value, name: &str| value[name].as_str().unwrap().to_owned();
    let changes = plan["changes"].as_array().unwrap().iter();
    let changes = changes.map(|c| format!("{} {}", text(c, "change"), text(c, "name"))).collect();
    let codes = plan["faults"].as_array().unwrap().iter().map(|fault| text(fault, "code")).collect();
    (left.exit, changes, codes, plan)
}

#[test]
fn what_a_joined_tables_own_wins_over_is_shown() {
    let check = |change: &dyn Fn(String) -> String, exit: Exit, expected: &[&str], codes: &[&str]| {
        let (found, changes, faults, plan) = planned(&joining(change));
        assert_eq!(
            (found, changes, faults.iter().map(String::as_str).collect::<Vec<_>>()),
            (exit, expected.iter().map(|e| (*e).to_owned()).collect(), codes.to_vec()),
            "{plan}"
        );
    };
    // Nothing of its layout is asked for, and nothing differs.
    let plain = |file: String| {
        file.replace("partition_by = [\"bucket(8, employee_id)\", \"hour(start_date)\", \"team\"]\n", "")
    };
    check(&plain, Exit::Done, &[], &[]);
    let other = |file: String| {
        let file = file.replace("bucket(8, employee_id)", "bucket(4, employee_id)");
        let file = file.replace("exists = ", "sort_by = [\"name\"]\nexists = ");
        format!("{file}place = \"team.location\"\n[table.properties]\n\"owner\" = \"me\"\n")
    };
    let all = ["add_column place", "partition_spec partition_by", "sort_order sort_by", "property owner"];
    check(&other, Exit::No, &all, &[]);
    // The file alone tells that much.
    let warned = joining(other).run(&["check", "joins", "--dir", "dir", "--json"]).document();
    let warned = warned["warnings"].as_array().unwrap().iter().map(|w| format!("{} {}", w["code"], w["line"]));
    assert_eq!(warned.collect::<Vec<_>>(), ["\"config.joined\" 13", "\"config.joined\" 17", "\"config.joined\" 28"]);
    // Its types stay: what does not fit goes to dead letters.
    let wider = |file: String| plain(file).replace("\"employee_age\"", "{ from = \"employee_age\", type = \"long\" }");
    check(&wider, Exit::No, &["change_column age"], &[]);
    let text = |file: String| plain(file).replace("\"employee_age\"", "{ from = \"employee_age\", type = \"string\" }");
    check(&text, Exit::Usage, &["change_column age"], &["plan.incompatible_column"]);
    let may_lack = |file: String| plain(file).replace(", required = true", "");
    check(&may_lack, Exit::No, &["change_column address"], &[]);
    // A column that the table requires, and that the file fills no more.
    let without = |file: String| plain(file).replace("address = { from = \"address\", required = true }\n", "");
    let expected = ["leave_column_away address", "change_column address"];
    check(&without, Exit::Usage, &expected, &["plan.required_column"]);
}

#[test]
fn there_has_to_be_a_table_to_join_and_none_where_it_must_be_new() {
    let nowhere = joining(|file| file.replace("name = \"bigdata.employee\"", "name = \"bigdata.nowhere\""));
    let (exit, changes, codes, plan) = planned(&nowhere);
    assert_eq!((exit, changes.len()), (Exit::Usage, 0), "{plan}");
    assert_eq!(codes, ["plan.table_missing"], "{plan}");
    assert!(faults(&plan)[0].contains(":13:"), "{plan}");
    // A fold says so too, once there is something to fold, and makes none.
    let event = String::from_utf8(events(20, 0.0).remove(0)).unwrap().replace("protobuf-demo-topic-pure", "others");
    nowhere.write("event.json", event);
    nowhere.done(&["ingest", "joins", "--event", "event.json"]);
    let (exit, document) = nowhere.json(&["fold", "joins"]);
    assert_eq!((exit, &document["error"]["code"]), (Exit::Usage, &json!("fold.table_missing")), "{document}");
    let new = joining(|file| file.replace("\"join\"", "\"must-be-new\""));
    assert_eq!(planned(&new).2, ["plan.table_exists"]);
}
