//! What is said of files before anything runs: check, plan and schema.

use super::*;

const PROTO: &str = include_str!("../../../../proto/employee.proto");

/// A pipeline that reads employees, with more lines in `[table]` or behind it.
pub(super) fn employee(table: &str) -> String {
    format!(
        "[source]\ntopics = [\"employees\"]\n[value]\nformat = \"protobuf\"\nframing = \"bare\"\n\
         schema = {{ proto = \"proto/employee.proto\", message = \"gsr.proto.post.Employee\" }}\n\
         [table]\nname = \"bigdata.employee\"\n{table}"
    )
}

/// A project with these pipelines.
pub(super) fn project(pipelines: &[(&str, &str)]) -> Place {
    let place = Place::new();
    place.write("frazil.toml", "[env.local]\ndir = \"dir\"\n");
    place.write("proto/employee.proto", PROTO);
    for (name, text) in pipelines {
        place.write(&format!("pipelines/{name}.toml"), text);
    }
    place
}

/// `file:line:column code` of each fault.
pub(super) fn faults(document: &Value) -> Vec<String> {
    let text = |fault: &Value, name: &str| fault[name].as_str().unwrap().to_owned();
    let all = document["faults"].as_array().unwrap().iter().map(|fault| {
        let code = text(fault, "code");
        let code = code.strip_prefix("config.").unwrap_or(&code);
        format!("{}:{}:{} {code}", text(fault, "file"), fault["line"], fault["column"])
    });
    all.collect()
}

impl Place {
    pub(super) fn answer(&self, arguments: &[&str]) -> (Exit, Value) {
        let left = self.run(&[arguments, &["--json"]].concat());
        (left.exit, left.document())
    }

    /// Checks, and gives exit and faults.
    pub(super) fn check(&self, arguments: &[&str]) -> (Exit, Vec<String>) {
        let (exit, document) = self.answer(&[&["check"], arguments].concat());
        assert_eq!((&document["schema"], &document["ok"]), (&json!("frazil.check/1"), &json!(true)), "{document}");
        (exit, faults(&document))
    }

    fn plan(&self, arguments: &[&str]) -> (Exit, Value) {
        let (exit, document) = self.answer(&[&["plan"], arguments].concat());
        assert_eq!(document["schema"], "frazil.plan/1");
        assert_eq!(document["ok"], json!(matches!(exit, Exit::Done | Exit::No)), "{document}");
        assert_eq!(document["faults"] == json!([]), document["ok"] == json!(true));
        (exit, document)
    }
}

fn codes(document: &Value) -> Vec<&str> {
    document["warnings"].as_array().unwrap().iter().map(|w| w["code"].as_str().unwrap()).collect()
}

#[test]
fn files_without_a_fault_are_answered_with_none_and_nothing_is_stored() {
    let place = project(&[("employee", &employee(""))]);
    let before = files(place.folder.path());
    assert_eq!(place.check(&[]), (Exit::Done, Vec::new()));
    assert_eq!(place.check(&["employee"]), (Exit::Done, Vec::new()));
    assert_eq!(place.check(&["--all"]), (Exit::Done, Vec::new()));
    assert_eq!(place.plan(&[]).0, Exit::Done);
    assert_eq!(files(place.folder.path()), before);
    assert!(place.run(&["check"]).stdout.starts_with("no faults: 1 pipeline"));
}

#[test]
fn every_fault_of_every_file_is_found_at_once() {
    let faulty = "[source]
topics = [\"employees\", \"a b\"]
[value]
format  = \"protobuf\"
framing = \"bare\"
schema  = { proto = \"proto/employee.proto\", message = \"gsr.proto.post.Employee\" }
filter  = { field = \"roll\", in = [\"DEVELOPER\"] }
explode = \"team\"
[table]
name = \"Bigdata.employee\"
mode = \"mirror\"
primary_key = [\"employe_id\", \"team\"]
partition_by = [\"huor(start_date)\", \"hour(name)\", \"day(nope)\", \"day(when)\"]
sort_by = [\"nme\"]
exclude = [\"addres\", \"team.nme\"]
unknown_fields = \"add\"
typs = \"portable\"
[table.columns]
employee_id = { from = \"id\", type = \"bigint\" }
_file = \"name\"
age  = { from = \"employee_age\", type = \"list<int>\", min = \"x\" }
when = { from = \"strat_date\" }
mail = { from = \"address\", pii = \"hash\" }
lost = { from = \"@offst\" }
[table.properties]
\"write.parquet.compression-level\" = \"99\"
\"write.metadata.compression-codec\" = 3
";
    let place = project(&[("faulty", faulty), ("other", &employee(""))]);
    place.write("frazil.toml", "[env.local]\ndir = \"dir\"\nregoin = \"x\"\nmapping = { batch = 0 }\n");
    let (exit, found) = place.check(&[]);
    assert_eq!(exit, Exit::No);
    let expected = [
        "frazil.toml:3:1 unknown_key",
        "frazil.toml:4:21 invalid",
        "pipelines/faulty.toml:2:11 topic_taken",
        "pipelines/faulty.toml:2:24 invalid",
        "pipelines/faulty.toml:7:1 misfit",
        "pipelines/faulty.toml:8:11 misfit",
        "pipelines/faulty.toml:10:9 invalid",
        "pipelines/faulty.toml:11:8 not_yet",
        "pipelines/faulty.toml:12:16 unknown_column",
        "pipelines/faulty.toml:12:30 misfit",
        "pipelines/faulty.toml:13:18 invalid",
        "pipelines/faulty.toml:13:37 unknown_column",
        "pipelines/faulty.toml:13:51 unknown_column",
        "pipelines/faulty.toml:14:12 unknown_column",
        "pipelines/faulty.toml:15:12 misfit",
        "pipelines/faulty.toml:15:22 misfit",
        "pipelines/faulty.toml:16:18 invalid",
        "pipelines/faulty.toml:17:1 unknown_key",
        "pipelines/faulty.toml:19:38 invalid",
        "pipelines/faulty.toml:20:1 reserved",
        "pipelines/faulty.toml:21:1 misfit",
        "pipelines/faulty.toml:21:59 invalid",
        "pipelines/faulty.toml:22:1 misfit",
        "pipelines/faulty.toml:23:34 no_salt",
        "pipelines/faulty.toml:24:17 invalid",
        "pipelines/faulty.toml:26:37 misfit",
        "pipelines/faulty.toml:27:38 wrong_type",
    ];
    assert_eq!(found, expected, "{}", place.run(&["check"]).stdout);
    // One file alone has its own, and those of what it stands on. A topic of two is said once, at the one that is asked for.
    let (_, found) = place.check(&["other"]);
    assert_eq!(found, [expected[0], expected[1], "pipelines/other.toml:2:11 topic_taken"]);

    let (exit, document) = place.plan(&["faulty"]);
    assert_eq!(
        (exit, faults(&document).len(), &document["error"]["code"]),
        (Exit::Usage, 27, &json!("config.unknown_key"))
    );
    assert_eq!(document["live"], json!({"state": "not_looked"}));
    let left = place.run(&["plan", "faulty"]);
    assert!(left.stderr.contains("faulty.toml:19:38") && left.stderr.contains("faulty.toml:27:38"), "{}", left.stderr);
    let left = place.run(&["check"]);
    assert!(left.stdout.ends_with("27 faults: 2 pipelines in the environment `local`\n"), "{}", left.stdout);
}

#[test]
fn a_fault_stands_where_it_can_be_mended() {
    let check = |place: &Place, expected: &[&str]| {
        let (exit, found) = place.check(&[]);
        assert_eq!((exit, found), (Exit::No, expected.iter().map(|e| (*e).to_owned()).collect()));
    };
    // The schema's own file.
    let place = project(&[("employee", &employee("nme = 1\n"))]);
    place.write("proto/employee.proto", PROTO.replace("int32 id = 1;", "int32 id = ;"));
    check(&place, &["pipelines/employee.toml:9:1 unknown_key", "proto/employee.proto:10:14 schema"]);
    place.write("proto/employee.proto", "syntax = \"proto3\"; import \"gone.proto\"; message A {}");
    check(&place, &["pipelines/employee.toml:9:1 unknown_key", "proto/employee.proto:1:20 schema"]);
    std::fs::remove_file(place.path("proto/employee.proto")).unwrap();
    check(&place, &["pipelines/employee.toml:6:20 schema_missing", "pipelines/employee.toml:9:1 unknown_key"]);
    let place = project(&[("employee", &employee("").replace("post.Employee", "post.Emploee"))]);
    check(&place, &["pipelines/employee.toml:6:54 schema"]);
    assert_eq!(place.answer(&["check"]).1["faults"][0]["nearest"], "gsr.proto.post.Employee");
    // A table's properties, each.
    let properties = "[table.properties]\n\"write.parquet.compression-codec\" = \"lzw\"\n\
        \"write.parquet.dict-size-bytes\" = \"few\"\n\"write.metadata.metrics.default\" = \"most\"\n";
    let place = project(&[("employee", &employee(properties))]);
    check(
        &place,
        &[
            "pipelines/employee.toml:10:37 misfit",
            "pipelines/employee.toml:11:35 misfit",
            "pipelines/employee.toml:12:36 misfit",
        ],
    );
    // What is no TOML hides nothing of other files.
    let text = employee("nme = 1\n").replace("bigdata", "${db}");
    let place = project(&[("employee", &text), ("broken", "[source\n")]);
    place.write("frazil.toml", "[env.local\ndir = \"dir\"\n");
    check(
        &place,
        &["frazil.toml:1:11 syntax", "pipelines/broken.toml:1:8 syntax", "pipelines/employee.toml:9:1 unknown_key"],
    );
}

#[test]
fn what_can_not_be_looked_at_is_no_answer() {
    let place = project(&[("employee", &employee(""))]);
    for (arguments, code) in [
        (&["check", "employees"][..], "config.unknown_pipeline"),
        (&["check", "--env", "prod"], "config.unknown_environment"),
        (&["check", "absent.toml"], "config.unreadable"),
        (&["plan", "employees"], "config.unknown_pipeline"),
    ] {
        let (exit, document) = place.answer(arguments);
        assert_eq!((exit, &document["error"]["code"]), (Exit::Usage, &json!(code)), "{arguments:?}");
    }
    assert_eq!(place.run(&["check", "employee", "--all"]).exit, Exit::Usage);
    let none = Place::new();
    assert_eq!(none.run(&["check"]).exit, Exit::Usage);
    // Environments alone can be looked at.
    none.write("frazil.toml", "[env.local]\ndir = \"dir\"\n");
    assert_eq!(none.check(&[]), (Exit::Done, Vec::new()));
}

#[test]
fn a_topic_may_be_of_two_clusters() {
    let named = |name: &str| employee("").replace("[value]", &format!("name = {name:?}\n[value]"));
    let place = project(&[("a", &named("east")), ("b", &named("west"))]);
    assert_eq!(place.check(&[]).0, Exit::Done);
    place.write("pipelines/b.toml", named("east"));
    assert_eq!(place.check(&["a"]).1, ["pipelines/a.toml:2:11 topic_taken"]);
    assert_eq!(place.check(&["b"]).1, ["pipelines/b.toml:2:11 topic_taken"]);
    // Of three readers it is one fault, which names the other two.
    place.write("pipelines/c.toml", named("east"));
    let (_, document) = place.answer(&["check"]);
    assert_eq!(faults(&document), ["pipelines/a.toml:2:11 topic_taken"]);
    assert!(document["faults"][0]["message"].as_str().unwrap().contains("read by b and c too"), "{document}");
}

#[test]
fn a_good_plan_says_what_comes_of_the_file() {
    let table = "mode = \"dedup\"\nprimary_key = [\"employee_id\"]\npartition_by = [\"bucket(4, employee_id)\", \"day(start_date)\"]\n\
        dedup_within = { column = \"start_date\", lookback = \"1h\" }\n\
        [table.columns]\nemployee_id = { from = \"id\", type = \"long\" }\nteam = \"team.name\"\n";
    let place = project(&[("employee", &employee(table))]);
    let (exit, plan) = place.plan(&["--records-per-second", "50000", "--record-bytes", "100"]);
    // Of the team there is no more than its name in the table, and nobody said so.
    assert_eq!((exit, codes(&plan)), (Exit::Done, vec!["plan.fields_left_aside"]));
    assert_eq!(plan["columns"][0], json!({"name": "employee_id", "type": "long", "required": false, "source": "id"}));
    let start = plan["columns"].as_array().unwrap().iter().find(|c| c["name"] == "start_date").unwrap();
    assert_eq!((&start["required"], &start["type"]), (&json!(true), &json!("timestamptz")));
    assert_eq!(
        plan["partition_spec"],
        json!([
            {"name": "employee_id_bucket", "transform": "bucket[4]", "source": "employee_id"},
            {"name": "start_date_day", "transform": "day", "source": "start_date"},
        ])
    );
    // 60 s of 50,000 rows of 100 bytes; times of 3660 s are of one day.
    let files = &plan["files"];
    assert_eq!((&files["rows_per_fold"], &files["trigger"]), (&json!(3_000_000), &json!("max_age")));
    assert_eq!((&files["files_per_fold"], &files["bytes_per_file"]), (&json!(4), &json!(75_000_000)));
    assert_eq!((&files["files_per_day"], &files["assumed"]), (&json!(4 * 1440), &json!([])));
    assert!(plan["merge"].as_str().unwrap().contains("within 3600 s"), "{plan}");
    assert!(plan["ddl"].as_str().unwrap().contains("days(`start_date`)"));
    assert_eq!(plan["hash"].as_str().unwrap().len(), 64);
    assert_eq!(plan["engines"].as_array().unwrap().iter().filter(|e| e["reads"] == "yes").count(), 7);
    assert_eq!(plan["changes"][0]["change"], "create_table");
    assert!(plan.get("permissions").is_none(), "nothing is on AWS");
    assert_eq!(place.plan(&["--exit-code"]).0, Exit::No);
    let text = place.run(&["plan"]).stdout;
    assert!(text.contains("1000 records/s (assumed)") && text.contains("create table bigdata.employee"), "{text}");
}

#[test]
fn a_wasteful_plan_is_warned_of() {
    let table = "mode = \"dedup\"\nprimary_key = [\"employee_id\"]\nrecord_columns = false\n\
        partition_by = [\"hour(start_date)\", \"bucket(256, name)\", \"born\"]\n\
        dedup_within = { column = \"start_date\", lookback = \"1h\", late = \"drop\" }\n\
        [table.columns]\nemployee_id = \"id\"\nborn = \"start_date\"\nstart_date = { from = \"start_date\" }\n\
        [table.properties]\n\"write.parquet.row-group-size-bytes\" = \"65536\"\n";
    let text = employee(table).replace("[table]", "filter = { field = \"role\", in = [\"DEVELOPER\"] }\n[table]");
    let place = project(&[("employee", &text)]);
    place.write(
        "frazil.toml",
        "[env.local]\ndir = \"dir\"\nmapping = { retries = 3, pollers = [1, 2], start = \"LATEST\" }\n",
    );
    let (exit, plan) = place.plan(&[]);
    assert_eq!(exit, Exit::Done, "what is wasteful is not wrong");
    assert_eq!(
        codes(&plan),
        [
            "plan.small_files",
            "plan.partition_per_value",
            "plan.key_not_in_partition",
            "plan.small_row_groups",
            "plan.late_dropped",
            "plan.filter_settles",
            "plan.no_record_columns",
            "plan.mapping_skips",
            "plan.start_latest",
        ]
    );
    assert_eq!((&plan["files"]["files_per_fold"], &plan["files"]["times_values_of"]), (&json!(512), &json!(["born"])));
    let table = "mode = \"dedup\"\nprimary_key = [\"name\"]\npartition_by = [\"name\"]\n";
    place.write("pipelines/employee.toml", employee(table));
    assert_eq!(codes(&place.plan(&[]).1)[..2], ["plan.partition_per_value", "plan.whole_table"]);
    let within = format!("{table}dedup_within = {{ column = \"start_date\", lookback = \"1h\" }}\n");
    place.write("pipelines/employee.toml", employee(&within));
    assert_eq!(codes(&place.plan(&[]).1)[..2], ["plan.partition_per_value", "plan.event_time_not_in_partition"]);
}

/// A table that a fold made of the demo's file, with what is planned for another.
fn against_the_table(change: impl Fn(&str) -> String) -> (Exit, Value) {
    let place = Place::with_pipeline();
    place.write("event.json", events(20, 0.0).remove(0));
    place.done(&["ingest", "--event", "event.json"]);
    place.done(&["fold"]);
    place.write("dir/pipelines/employee.toml", change(include_str!("../../demo/employee.toml")));
    let (exit, document) = place.plan(&["--dir", "dir", "--exit-code"]);
    assert_eq!(document["live"]["state"], "present");
    (exit, document)
}

#[test]
fn what_a_fold_makes_is_what_was_planned() {
    let (exit, plan) = against_the_table(str::to_owned);
    assert_eq!((exit, &plan["changes"]), (Exit::Done, &json!([])), "{plan}");
}

/// What mode `upsert` does to a table that another mode has filled.
#[test]
fn what_upsert_makes_of_a_table_that_is_there_is_said() {
    let upsert = |file: &str, more: &str| {
        let key = "\nmode = \"upsert\"\nprimary_key = [\"employee_id\"]\n";
        file.replace("\nmode = \"append\"\n", &format!("{key}{more}\n"))
    };
    let messages = |plan: &Value, code: &str| -> Vec<String> {
        let all = plan["warnings"].as_array().unwrap().iter().filter(|warning| warning["code"] == code);
        all.map(|warning| warning["message"].as_str().unwrap().to_owned()).collect()
    };
    let (exit, plan) = against_the_table(|file| upsert(file, "deletes = \"ignore\""));
    assert_eq!((exit, &plan["changes"]), (Exit::Done, &json!([])), "{plan}");
    let said = messages(&plan, "plan.rows_of_a_key");
    assert!(said.len() == 1 && said[0].contains("their (employee_id)") && said[0].contains("go together"), "{plan}");
    assert_eq!(messages(&plan, "plan.marks_rewrite").len(), 0);
    let (exit, plan) = against_the_table(|file| upsert(file, "deletes = \"soft\""));
    let changes: Vec<&Value> = plan["changes"].as_array().unwrap().iter().map(|change| &change["name"]).collect();
    assert_eq!((exit, changes), (Exit::No, vec![&json!("_is_deleted"), &json!("_deleted_at")]), "{plan}");
    let said = messages(&plan, "plan.marks_rewrite");
    assert!(said.len() == 1 && said[0].contains(" data files, ") && said[0].contains("once"), "{plan}");
    let columns = plan["columns"].as_array().unwrap();
    assert_eq!(columns[columns.len() - 2]["type"], "boolean");
    assert!(plan["merge"].as_str().unwrap().contains("marks the row of its key as deleted"), "{plan}");
    assert_eq!(messages(&plan, "plan.deletes_without_key").len(), 1);
}

#[test]
fn a_table_without_record_columns_is_no_table_for_upsert() {
    let place = Place::with_pipeline();
    let own = include_str!("../../demo/employee.toml");
    let file = |more: &str| own.replace("\nmode = \"append\"\n", &format!("\n{more}\n"));
    place.write("dir/pipelines/employee.toml", file("mode = \"append\"\nrecord_columns = false"));
    let mut events = events(40, 0.0).into_iter();
    place.write("event.json", events.next().unwrap());
    place.done(&["ingest", "--event", "event.json"]);
    place.done(&["fold"]);
    let upsert = file("mode = \"upsert\"\nprimary_key = [\"employee_id\"]\ndeletes = \"ignore\"");
    place.write("dir/pipelines/employee.toml", upsert);
    let (exit, plan) = place.plan(&["--dir", "dir"]);
    assert_eq!((exit, &plan["faults"][0]["code"]), (Exit::Usage, &json!("plan.record_columns")), "{plan}");
    let message = plan["faults"][0]["message"].as_str().unwrap();
    assert!(message.contains("`_kafka_topic`") && message.contains("another `name`"), "{message}");
}

/// Key columns that a record without a value does not have.
#[test]
fn a_key_that_deletes_can_not_name_is_warned_of() {
    let warned = |key: &str| {
        let table = format!(
            "mode = \"upsert\"\nprimary_key = [{key}]\n[key]\nformat = \"json\"\nframing = \"bare\"\n[table.columns]\n\
             k = {{ from = \"@key.id\", type = \"long\" }}\nt = \"@topic\"\no = \"@offset\"\n\
             h = {{ from = \"@header.tenant\", type = \"string\" }}\nn = \"name\"\n"
        );
        let place = project(&[("employee", &employee(&table))]);
        let (exit, plan) = place.plan(&[]);
        assert_eq!(exit, Exit::Done, "{plan}");
        let of_key = ["plan.deletes_without_key", "plan.key_per_record"];
        let all = plan["warnings"].as_array().unwrap().iter();
        let found = all.filter(|warning| of_key.contains(&warning["code"].as_str().unwrap()));
        found
            .map(|w| format!("{}: {}", w["code"].as_str().unwrap(), w["message"].as_str().unwrap()))
            .collect::<Vec<_>>()
    };
    assert!(warned("\"k\", \"t\"").is_empty(), "its topic is known of every record");
    assert!(warned("\"k\", \"_kafka_topic\", \"_kafka_partition\"").is_empty());
    let check = |key: &str, words: &[&str]| {
        let said = warned(key);
        assert!(said.len() == 1 && words.iter().all(|word| said[0].contains(word)), "{said:?}");
    };
    check("\"k\", \"n\"", &["deletes_without_key", "`n` is made of the value", "n = { from = \"@key.name\""]);
    check("\"k\", \"h\"", &["deletes_without_key", "of a header", "h = { from = \"@key.tenant\""]);
    check("\"k\", \"o\"", &["key_per_record", "`o` is another in each record", "mode = \"append\""]);
    check("\"k\", \"_kafka_offset\"", &["key_per_record", "leave it out of `primary_key`"]);
}

#[test]
fn what_would_change_in_the_table_is_shown() {
    let changes = |plan: &Value| -> Vec<String> {
        let all = plan["changes"].as_array().unwrap().iter();
        all.map(|c| format!("{} {}", c["change"].as_str().unwrap(), c["name"].as_str().unwrap())).collect()
    };
    let check = |change: &dyn Fn(&str) -> String, exit: Exit, expected: &[&str], codes: &[&str]| {
        let (found, plan) = against_the_table(change);
        assert_eq!((found, changes(&plan)), (exit, expected.iter().map(|e| (*e).to_owned()).collect()), "{plan}");
        let found: Vec<&str> = plan["faults"].as_array().unwrap().iter().map(|f| f["code"].as_str().unwrap()).collect();
        assert_eq!(found, codes, "{plan}");
    };
    // What the next fold does to the table is a change.
    check(&|file| format!("{file}place = \"team.location\"\n"), Exit::No, &["add_column place"], &[]);
    // What the table can't take stops folds: it is a fault, where it stands.
    check(
        &|file| file.replace("age = \"employee_age\"", "age = { from = \"employee_age\", type = \"string\" }"),
        Exit::Usage,
        &["change_column age"],
        &["plan.incompatible_column"],
    );
    check(
        &|file| file.replace("role = \"role\"", "role = \"role\"\nnow = { from = \"@offset\" }"),
        Exit::No,
        &["add_column now"],
        &[],
    );
    check(
        &|file| file.replace("age = \"employee_age\"", "age = { from = \"employee_age\", type = \"double\" }"),
        Exit::Usage,
        &["change_column age"],
        &["plan.incompatible_column"],
    );
    // What it takes otherwise than the file says is a change.
    check(
        &|file| file.replace("age = \"employee_age\"", "age = { from = \"employee_age\", type = \"long\" }"),
        Exit::No,
        &["promote_column age"],
        &[],
    );
    check(&|file| file.replace("address = \"address\"\n", ""), Exit::No, &["leave_column_away address"], &[]);
    check(
        &|file| file.replace("bucket(8, employee_id)", "bucket(4, employee_id)"),
        Exit::No,
        &["partition_spec partition_by"],
        &[],
    );
    check(
        &|file| format!("{file}[table.properties]\n\"write.target-file-size-bytes\" = \"100000000\"\n"),
        Exit::No,
        &["property write.target-file-size-bytes"],
        &[],
    );
    check(
        &|file| file.replace("mode = \"append\"", "mode = \"append\"\nsort_by = [\"name desc\"]"),
        Exit::No,
        &["sort_order sort_by"],
        &[],
    );
    // The table's own expiry is the one that holds.
    check(
        &|file| format!("{file}[staging]\nretention = \"20d\"\n"),
        Exit::Usage,
        &["property history.expire.max-snapshot-age-ms"],
        &["plan.history_expiry"],
    );
}

#[test]
fn on_aws_the_roles_policies_are_part_of_the_plan() {
    let place = project(&[("employee", &employee(""))]);
    place.write(
        "frazil.toml",
        "[env.prod]\nstore = \"s3://acme-frazil\"\nwarehouse = \"s3://acme-lake\"\ncatalog = \"sqlite:catalog.db\"\n",
    );
    // No catalog was made yet: nobody is asked for credentials, nor a bucket for anything.
    let (exit, plan) = place.plan(&["--env", "prod"]);
    assert_eq!((exit, &plan["live"]["state"]), (Exit::Done, &json!("absent")));
    let policy = plan["permissions"]["fold"]["policy"].to_string();
    assert!(policy.contains("arn:aws:s3:::acme-lake/bigdata/employee/*"), "{policy}");
    assert!(place.run(&["plan", "--env", "prod"]).stdout.contains("The role of fold:"));
}

#[test]
fn a_catalog_that_can_not_be_read_leaves_the_plan_of_the_files() {
    let place = project(&[("employee", &employee(""))]);
    place.write(
        "dir/catalog.db",
        "this is no database, and longer than a header of one would be: 0123456789 0123456789",
    );
    let (exit, plan) = place.plan(&[]);
    assert_eq!((exit, &plan["live"]["state"]), (Exit::Done, &json!("unreachable")), "{plan}");
    assert!(plan["columns"].as_array().unwrap().len() > 5);
    let (exit, refused) = place.answer(&["plan", "--exit-code"]);
    assert_eq!((exit, &refused["error"]["code"]), (Exit::TryAgain, &json!("plan.unreachable")));
}

#[test]
fn what_the_next_fold_would_stop_at_is_a_fault() {
    let place = Place::with_pipeline();
    place.write("event.json", events(20, 0.0).remove(0));
    place.done(&["ingest", "--event", "event.json"]);
    place.done(&["fold"]);
    std::fs::remove_file(place.folder.path().join("dir/catalog.db")).unwrap();
    let (exit, plan) = place.plan(&["--dir", "dir"]);
    assert_eq!((exit, &plan["faults"][0]["code"]), (Exit::Usage, &json!("fold.table_replaced")), "{plan}");
    assert_eq!(plan["live"]["state"], "absent");
    assert!(!place.folder.path().join("dir/catalog.db").exists(), "a plan makes nothing");
    assert_eq!(place.answer(&["fold", "--dir", "dir"]).1["error"]["code"], "fold.table_replaced");
}

/// Also where the file says nothing of it any more.
#[test]
fn a_staged_column_that_the_table_can_not_take_is_a_fault() {
    let place = Place::with_pipeline();
    let own = include_str!("../../demo/employee.toml");
    let mut events = events(20, 0.0).into_iter();
    for file in [own, &own.replace("age = \"employee_age\"", "age = { from = \"employee_age\", type = \"string\" }")] {
        place.write("dir/pipelines/employee.toml", file);
        place.write("event.json", events.next().unwrap());
        place.done(&["ingest", "--event", "event.json"]);
        if file == own {
            place.done(&["fold"]);
        }
    }
    place.write("dir/pipelines/employee.toml", own);
    let (exit, plan) = place.plan(&["--dir", "dir"]);
    assert_eq!((exit, &plan["faults"][0]["code"]), (Exit::Usage, &json!("fold.column_unfit")), "{plan}");
    let message = plan["faults"][0]["message"].as_str().unwrap();
    for words in ["column `age`", "is string in `staging/", "and int in", "`exclude`"] {
        assert!(message.contains(words), "{message}");
    }
    assert_eq!(place.answer(&["fold", "--dir", "dir"]).1["error"]["code"], "fold.column_unfit");
}

#[test]
fn both_files_are_described_to_editors() {
    let place = Place::new();
    for (file, member) in [("pipeline", "source"), ("environment", "env")] {
        let (exit, document) = place.answer(&["schema", file]);
        assert_eq!((exit, &document["schema"]), (Exit::Done, &json!("frazil.schema/1")));
        assert!(document["json_schema"]["properties"][member].is_object());
        let text: Value = serde_json::from_str(&place.run(&["schema", file]).stdout).unwrap();
        assert_eq!(text, document["json_schema"]);
    }
    assert_eq!(place.run(&["schema"]).exit, Exit::Usage);
}

/// A slip under `exclude` publishes what it was to leave out. That is said, and is no fault: a version to come may have such a field.
#[test]
fn an_exclusion_of_what_no_version_has_is_warned_of() {
    let place = Place::new();
    place.write(
        "frazil.toml",
        "[env.local]\ndir = \"dir\"\nregistries.main = { kind = \"files\", dir = \"registry\" }\n",
    );
    let version = |fields: &str| format!("syntax = \"proto3\"; message M {{ string id = 1; {fields} }}");
    let newest = version("string phone = 2; L location = 3; } message L { string city = 1;");
    place.write("registry/m.proto", &newest);
    place.write("registry/1.proto", &newest);
    place.write("registry/2.proto", version("string phone2 = 4; string city = 5;"));
    let pipeline = |table: &str| {
        format!(
            "[source]\ntopics = [\"t\"]\n[value]\nformat = \"protobuf\"\nframing = \"confluent\"\n\
             schema = {{ registry = \"main\", name = \"m\", message = \"M\" }}\n[table]\nname = \"db.t\"\n{table}"
        )
    };
    for unknown in ["add", "rest"] {
        let table = format!("exclude = [\"phone2\", \"fone\", \"location.citty\"]\nunknown_fields = \"{unknown}\"\n");
        place.write("pipelines/t.toml", pipeline(&table));
        let (exit, document) = place.answer(&["check"]);
        assert_eq!((exit, &document["faults"]), (Exit::Done, &json!([])), "{document}");
        let warnings = document["warnings"].as_array().unwrap();
        let found: Vec<_> =
            warnings.iter().map(|w| (w["line"].clone(), w["column"].clone(), w["code"].clone())).collect();
        let code = json!("config.unmatched");
        assert_eq!(found, [(json!(9), json!(22), code.clone()), (json!(9), json!(30), code)]);
        assert_eq!((&warnings[0]["nearest"], &warnings[1]["nearest"]), (&Value::Null, &json!("location.city")));
        assert!(
            place
                .run(&["check"])
                .stdout
                .starts_with("warning: pipelines/t.toml:9:22: no known version of the schema has")
        );
        let (exit, document) = place.plan(&[]);
        assert_eq!((exit, &codes(&document)[..2]), (Exit::Done, &["config.unmatched"; 2][..]), "{document}");
    }
    // Where such fields are in no column anyway, it can only be a slip.
    place.write("pipelines/t.toml", pipeline("exclude = [\"phone2\", \"fone\"]\nunknown_fields = \"ignore\"\n"));
    assert_eq!(place.check(&[]), (Exit::No, vec!["pipelines/t.toml:9:22 misfit".to_owned()]));
    // What a declared column takes the place of in another version, and who has no value for one that is required.
    let columns = "[table.columns]\ncity = \"location.city\"\nphone2 = { required = true }\n";
    place.write("pipelines/t.toml", pipeline(columns));
    let (exit, document) = place.plan(&[]);
    assert_eq!(exit, Exit::Done, "{document}");
    let codes = codes(&document);
    assert!(codes.contains(&"plan.field_replaced") && codes.contains(&"plan.required_absent"), "{document}");
}
