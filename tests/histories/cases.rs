//! Histories that went wrong elsewhere, with the tables that they have to end with: keys with nulls, rows that move to another
//! partition, several rows of a key, two versions in one commit, records without a value.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
use base64_simd::STANDARD;
use serde_json::{Value, json};

use crate::World;

/// One step.
enum Step {
    /// An event of records of one partition: key and value as they come, each at the next offset.
    Event(Vec<(Option<&'static str>, Option<&'static str>)>),
    /// An event, written out.
    Raw(Value),
    Fold,
    /// The pipeline file says this of the table from here on.
    Mode(&'static str),
}

struct Case {
    name: &'static str,
    table: &'static str,
    columns: &'static str,
    steps: Vec<Step>,
    /// Rows as `id|region or at|value`, in order; with `|whether it is marked` where the table has marks, and when.
    rows: &'static [&'static str],
    dead_letters: u64,
}

const UPSERT: &str = "mode = \"upsert\"\nprimary_key = [\"id\"]";
const SOFT: &str = "mode = \"upsert\"\nprimary_key = [\"id\"]\ndeletes = \"soft\"";
const BY_ID: &str = "id = { from = \"@key.id\", type = \"long\" }\nv = { type = \"string\" }";

const fn row(key: &'static str, value: &'static str) -> (Option<&'static str>, Option<&'static str>) {
    (Some(key), Some(value))
}

const fn delete(key: &'static str) -> (Option<&'static str>, Option<&'static str>) {
    (Some(key), None)
}

fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "null_in_the_key",
            table: "mode = \"upsert\"\nprimary_key = [\"id\", \"region\"]",
            columns: "id = { from = \"@key.id\", type = \"long\" }\nregion = { from = \"@key.region\", type = \"string\" }\n\
                      v = { type = \"string\" }",
            steps: vec![
                Step::Event(vec![
                    row(r#"{"id":1,"region":null}"#, r#"{"v":"a"}"#),
                    row(r#"{"id":1,"region":"eu"}"#, r#"{"v":"b"}"#),
                    row(r#"{"id":2}"#, r#"{"v":"c"}"#),
                ]),
                Step::Fold,
                Step::Event(vec![row(r#"{"id":1}"#, r#"{"v":"A"}"#), delete(r#"{"id":2,"region":"eu"}"#)]),
                Step::Fold,
            ],
            rows: &["1|eu|b", "1||A", "2||c"],
            dead_letters: 0,
        },
        Case {
            name: "moved_to_another_partition",
            table: "mode = \"upsert\"\nprimary_key = [\"id\"]\npartition_by = [\"day(at)\"]",
            columns: "id = { from = \"@key.id\", type = \"long\" }\nat = { type = \"timestamptz\" }\nv = { type = \"string\" }",
            steps: vec![
                Step::Event(vec![
                    row(r#"{"id":1}"#, r#"{"at":"2024-03-01T08:00:00Z","v":"a"}"#),
                    row(r#"{"id":2}"#, r#"{"at":"2024-03-01T09:00:00Z","v":"b"}"#),
                ]),
                Step::Fold,
                Step::Event(vec![
                    row(r#"{"id":1}"#, r#"{"at":"2024-03-05T08:00:00Z","v":"a2"}"#),
                    row(r#"{"id":2}"#, r#"{"at":"2024-02-28T23:59:59.999999Z","v":"b2"}"#),
                ]),
                Step::Fold,
            ],
            rows: &["1|1709625600000000|a2", "2|1709164799999999|b2"],
            dead_letters: 0,
        },
        Case {
            name: "many_rows_of_a_key",
            table: "mode = \"append\"",
            columns: BY_ID,
            steps: vec![
                Step::Event(vec![
                    row(r#"{"id":1}"#, r#"{"v":"old"}"#),
                    row(r#"{"id":1}"#, r#"{"v":"old"}"#),
                    row(r#"{"id":2}"#, r#"{"v":"k"}"#),
                ]),
                Step::Fold,
                Step::Mode(UPSERT),
                Step::Event(vec![
                    row(r#"{"id":1}"#, r#"{"v":"n1"}"#),
                    row(r#"{"id":1}"#, r#"{"v":"n2"}"#),
                    delete(r#"{"id":1}"#),
                    row(r#"{"id":3}"#, r#"{"v":"x"}"#),
                    row(r#"{"id":3}"#, r#"{"v":"x"}"#),
                ]),
                Step::Fold,
                Step::Event(vec![row(r#"{"id":1}"#, r#"{"v":"again"}"#)]),
                Step::Fold,
            ],
            rows: &["1||again", "2||k", "3||x"],
            dead_letters: 0,
        },
        Case {
            name: "two_versions_in_one_commit",
            table: UPSERT,
            columns: BY_ID,
            steps: vec![
                Step::Event(vec![row(r#"{"id":9}"#, r#"{"v":"v0"}"#)]),
                Step::Fold,
                Step::Event(vec![row(r#"{"id":9}"#, r#"{"v":"v1"}"#)]),
                Step::Event(vec![row(r#"{"id":9}"#, r#"{"v":"v2"}"#)]),
                Step::Fold,
            ],
            rows: &["9||v2"],
            dead_letters: 0,
        },
        Case {
            name: "records_without_a_value",
            table: UPSERT,
            columns: BY_ID,
            steps: vec![
                Step::Event(vec![row(r#"{"id":7}"#, r#"{"v":"x"}"#), row(r#"{"id":9}"#, r#"{"v":"y"}"#)]),
                Step::Fold,
                // A null, a member that is missing, a row, neither key nor value, and zero bytes of both.
                Step::Raw(
                    json!({ "eventSource": "SelfManagedKafka", "bootstrapServers": "localhost:9092", "records": {
                    "orders-0": [
                        { "topic": "orders", "partition": 0, "offset": 40, "timestamp": 1, "timestampType": "CREATE_TIME",
                          "key": "eyJpZCI6N30=", "value": null, "headers": [] },
                        { "topic": "orders", "partition": 0, "offset": 41, "timestamp": 1, "timestampType": "CREATE_TIME",
                          "key": "eyJpZCI6OX0=", "headers": [] },
                        { "topic": "orders", "partition": 0, "offset": 42, "timestamp": 1, "timestampType": "CREATE_TIME",
                          "key": "eyJpZCI6N30=", "value": "eyJpZCI6NywidiI6IngifQ==", "headers": [] },
                        { "topic": "orders", "partition": 0, "offset": 43, "timestamp": 1, "timestampType": "CREATE_TIME",
                          "value": null, "headers": [] },
                        { "topic": "orders", "partition": 0, "offset": 44, "timestamp": 1, "timestampType": "CREATE_TIME",
                          "key": "", "value": "", "headers": [] }
                    ] } }),
                ),
                Step::Fold,
            ],
            rows: &["7||x"],
            dead_letters: 2,
        },
        Case {
            name: "deletes_without_a_key_of_their_own",
            table: UPSERT,
            columns: "id = { type = \"long\" }\nv = { type = \"string\" }\nk = { from = \"@key.id\", type = \"long\" }",
            steps: vec![
                Step::Event(vec![row(r#"{"id":7}"#, r#"{"id":7,"v":"x"}"#), delete(r#"{"id":7}"#)]),
                Step::Fold,
            ],
            rows: &["7||x"],
            dead_letters: 1,
        },
        Case {
            name: "deletes_that_are_ignored",
            table: "mode = \"upsert\"\nprimary_key = [\"id\"]\ndeletes = \"ignore\"",
            columns: BY_ID,
            steps: vec![Step::Event(vec![row(r#"{"id":7}"#, r#"{"v":"x"}"#), delete(r#"{"id":7}"#)]), Step::Fold],
            rows: &["7||x"],
            dead_letters: 0,
        },
        Case {
            name: "deletes_that_mark",
            table: SOFT,
            columns: BY_ID,
            steps: vec![
                Step::Event(vec![row(r#"{"id":7}"#, r#"{"v":"x"}"#), row(r#"{"id":8}"#, r#"{"v":"y"}"#)]),
                Step::Fold,
                // One of a key that has no row, one twice, and one of a key that comes back.
                Step::Event(vec![
                    delete(r#"{"id":7}"#),
                    delete(r#"{"id":9}"#),
                    delete(r#"{"id":7}"#),
                    delete(r#"{"id":8}"#),
                ]),
                Step::Fold,
                Step::Event(vec![row(r#"{"id":8}"#, r#"{"v":"z"}"#)]),
                Step::Fold,
            ],
            rows: &["7||x|true at 5", "8||z|false", "9|||true at 4"],
            dead_letters: 0,
        },
        Case {
            name: "deletes_that_mark_what_was_there_before",
            table: UPSERT,
            columns: BY_ID,
            steps: vec![
                Step::Event(vec![row(r#"{"id":1}"#, r#"{"v":"a"}"#), row(r#"{"id":2}"#, r#"{"v":"b"}"#)]),
                Step::Fold,
                Step::Event(vec![delete(r#"{"id":3}"#), row(r#"{"id":4}"#, r#"{"v":"d"}"#)]),
                Step::Fold,
                Step::Mode(SOFT),
                Step::Event(vec![delete(r#"{"id":2}"#)]),
                Step::Fold,
                // Hard again: what is marked goes, and what comes has a mark all the same.
                Step::Mode(UPSERT),
                Step::Event(vec![delete(r#"{"id":2}"#), row(r#"{"id":5}"#, r#"{"v":"e"}"#)]),
                Step::Fold,
                Step::Mode("mode = \"append\""),
                Step::Event(vec![row(r#"{"id":6}"#, r#"{"v":"f"}"#)]),
                Step::Fold,
            ],
            rows: &["1||a|false", "4||d|false", "5||e|false", "6||f|false"],
            dead_letters: 0,
        },
        Case {
            name: "deletes_that_mark_no_row_that_can_be",
            table: SOFT,
            columns: "id = { from = \"@key.id\", type = \"long\" }\nv = { type = \"string\", required = true }",
            steps: vec![
                Step::Event(vec![row(r#"{"id":1}"#, r#"{"v":"a"}"#), delete(r#"{"id":1}"#), delete(r#"{"id":2}"#)]),
                Step::Fold,
            ],
            rows: &["1||a|true at 2"],
            dead_letters: 0,
        },
        Case {
            name: "deletes_that_were_staged_before_they_were_ignored",
            table: UPSERT,
            columns: BY_ID,
            steps: vec![
                Step::Event(vec![row(r#"{"id":1}"#, r#"{"v":"a"}"#), delete(r#"{"id":1}"#)]),
                Step::Mode("mode = \"upsert\"\nprimary_key = [\"id\"]\ndeletes = \"ignore\""),
                Step::Fold,
            ],
            rows: &["1||a"],
            dead_letters: 0,
        },
        Case {
            name: "a_key_of_the_topic_and_a_field",
            table: "mode = \"upsert\"\nprimary_key = [\"t\", \"id\", \"_kafka_partition\"]",
            columns: "id = { from = \"@key.id\", type = \"long\" }\nt = \"@topic\"\nv = { type = \"string\" }",
            steps: vec![
                Step::Event(vec![row(r#"{"id":1}"#, r#"{"v":"a"}"#), row(r#"{"id":2}"#, r#"{"v":"b"}"#)]),
                Step::Fold,
                Step::Event(vec![delete(r#"{"id":1}"#), row(r#"{"id":2}"#, r#"{"v":"c"}"#)]),
                Step::Fold,
            ],
            rows: &["2||c"],
            dead_letters: 0,
        },
    ]
}

/// Lives through all of them; gives what ended otherwise.
pub(crate) async fn all(world: &World) -> Vec<String> {
    let mut wrong = Vec::new();
    for case in cases() {
        let (rows, dead_letters) = live(world, &case).await;
        if rows != case.rows || dead_letters != case.dead_letters {
            wrong.push(format!("{}: {rows:?} and {dead_letters} dead letters", case.name));
        }
    }
    wrong
}

async fn live(world: &World, case: &Case) -> (Vec<String>, u64) {
    let text = |table: &str| {
        format!(
            "[source]\ntopics = [\"orders\"]\nname = \"cluster\"\n[key]\nformat = \"json\"\nframing = \"bare\"\n[value]\n\
             format = \"json\"\nframing = \"bare\"\n[table]\nname = \"db.c_{}\"\n{table}\n[table.columns]\n{}\n",
            case.name, case.columns
        )
    };
    let name = format!("c_{}", case.name);
    let id = world.id(&name);
    let mut pipeline = world.pipeline_of(&name, &text(case.table));
    let (mut offset, mut dead_letters) = (0, 0);
    for step in &case.steps {
        let ingest = world.ingest(&pipeline, &id);
        let event = match step {
            Step::Fold => {
                dead_letters += world.fold(&pipeline, &id).run().await.unwrap().tables[0].dead_letters;
                continue;
            }
            Step::Mode(table) => {
                pipeline = world.pipeline_of(&name, &text(table));
                continue;
            }
            Step::Raw(event) => event.clone(),
            Step::Event(records) => {
                let encoded = |text: &Option<&str>| text.map(|text| STANDARD.encode_to_string(text));
                let records: Vec<Value> = records
                    .iter()
                    .map(|(key, value)| {
                        offset += 1;
                        json!({ "topic": "orders", "partition": 0, "offset": offset - 1, "timestamp": offset,
                                "timestampType": "CREATE_TIME", "key": encoded(key), "value": encoded(value), "headers": [] })
                    })
                    .collect();
                json!({ "eventSource": "SelfManagedKafka", "bootstrapServers": "localhost:9092",
                        "records": { "orders-0": records } })
            }
        };
        ingest.handle(event.to_string().as_bytes(), None).await.unwrap();
    }
    (shown(world, &pipeline).await, dead_letters)
}

async fn shown(world: &World, pipeline: &pipeline::resolved::Pipeline) -> Vec<String> {
    let mut rows = Vec::new();
    for batch in world.batches(pipeline).await {
        for row in 0..batch.num_rows() {
            let id = batch["id"].as_primitive::<Int64Type>().value(row);
            let text = |name: &str| {
                let column = batch.column_by_name(name)?.as_string::<i32>();
                column.is_valid(row).then(|| column.value(row).to_owned())
            };
            let at = batch
                .column_by_name("at")
                .map(|at| at.as_primitive::<TimestampMicrosecondType>().value(row).to_string());
            let middle = at.or_else(|| text("region")).unwrap_or_default();
            let mark = |name: &str| batch.column_by_name(name).filter(|column| column.is_valid(row));
            let at = mark("_deleted_at").map(|at| at.as_primitive::<TimestampMicrosecondType>().value(row) / 1000);
            let at = at.map_or_else(String::new, |at| format!(" at {at}"));
            let mark = mark("_is_deleted").map(|mark| mark.as_boolean().value(row));
            let mark = mark.map_or_else(String::new, |mark| format!("|{mark}{at}"));
            rows.push(format!("{id}|{middle}|{}{mark}", text("v").unwrap_or_default()));
        }
    }
    rows.sort();
    rows
}
