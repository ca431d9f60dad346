//! One pipeline, many tables; topics by pattern.

use super::{SOURCE, VALUE, check, parse_named};
use crate::resolved::{Mode, TableName, Transform};

fn named(table: &str, rest: &str) -> String {
    format!("{SOURCE}{VALUE}[table]\nname = \"{table}\"\n{rest}")
}

fn table(name: &str) -> TableName {
    name.parse().unwrap()
}

#[test]
fn each_table_has_what_is_said_of_all_and_what_differs_for_it() {
    let text = named(
        "${db}.x_{topic}",
        "mode = \"dedup\"\nprimary_key = [\"id\"]\ndedup_within = { column = \"at\", lookback = \"1h\" }\n\
         partition_by = [\"day(at)\"]\n[table.properties]\na = \"1\"\nb = \"1\"\n\
         [tables.x_orders]\npartition_by = [\"month(at)\"]\nproperties.b = \"2\"\n\
         [tables.\"x-public.log\"]\nmode = \"append\"\n",
    );
    let pipeline = parse_named(&text).unwrap();
    assert_eq!(pipeline.table.name.to_string(), "bigdata.x_{topic}");
    assert!(pipeline.takes(&table("bigdata.x_orders")) && !pipeline.takes(&table("bigdata.orders")));
    assert_eq!(pipeline.tables.keys().collect::<Vec<_>>(), ["x_orders", "x_public_log"]);

    let of = |name: &str| {
        let own = pipeline.of(&table(name));
        assert!(pipeline.has_many() && !own.has_many() && own.takes(&table("bigdata.x_any")));
        assert_eq!((own.table.name.to_string(), &own.source), (name.to_owned(), &pipeline.source));
        assert_eq!(own.of(&table("bigdata.x_any")), own);
        own.table
    };
    let (orders, log, other) = (of("bigdata.x_orders"), of("bigdata.x_public_log"), of("bigdata.x_other"));
    let transforms = [&orders, &log, &other].map(|t| t.partition_by[0].transform);
    assert_eq!(transforms, [Transform::Month, Transform::Day, Transform::Day]);
    assert_eq!([&orders, &log, &other].map(|t| t.mode), [Mode::Dedup, Mode::Append, Mode::Dedup]);
    assert_eq!([&orders, &log, &other].map(|t| t.dedup_within.is_some()), [true, false, true]);
    let properties = |t: &crate::resolved::Table| [&t.properties["a"], &t.properties["b"]].map(String::clone);
    assert_eq!([properties(&orders), properties(&log)], [["1", "2"], ["1", "1"]]);

    // A pipeline of one table is its own.
    let one = parse_named(&named("db.t", "")).unwrap();
    assert_eq!(one.of(&table("db.t")), one);
    assert!(one.takes(&table("db.t")) && !one.takes(&table("db.u")));
}

#[test]
fn what_differs_is_held_to_the_same_rules() {
    let many = |rest: &str, expected: &[&str]| check(&named("db.{topic}", rest), expected);
    many("[tables.a]\npartition_by = [\"hours(at)\", \"hour(at)\"]\n", &["10:30 duplicate `hour(at)` is there twice"]);
    many("[tables.a]\nmode = \"dedup\"\n", &["10:8 missing needs a `primary_key`"]);
    many("primary_key = [\"a\"]\n[tables.a]\nmode = \"dedup\"\n", &[]);
    many(
        "primary_key = [\"a\"]\n[tables.a]\nmode = \"dedup\"\nprimary_key = []\n",
        &["11:8 missing needs a `primary_key`"],
    );
    many("[tables.a]\ndedup_within = { column = \"at\", lookback = \"1h\" }\n", &["10:1 invalid belongs to"]);
    many(
        "fields = \"listed\"\ncolumns.a = \"a\"\n[tables.a]\nsort_by = [\"b\"]\n",
        &["12:12 unknown_column not one of"],
    );
    many("[tables.a]\ncolumns.a = \"b\"\n", &["10:1 unknown_key `columns`"]);
    many("[tables.\"a b\"]\n[tables._a]\n", &["9:9 invalid is called `a b`", "10:9 invalid is called `_a`"]);
    many("[tables.a-b]\n[tables.a_b]\n", &["10:9 duplicate `a_b` is there twice"]);
    many("[tables]\na = 1\n", &["10:5 wrong_type `a` takes a table"]);
    check(&named("db.x_{topic}", "[tables.a]\n"), &["9:9 invalid no table of `db.x_{topic}` is called `a`"]);
    check(&named("db.t", "[tables.a]\n"), &["9:2 invalid `name` under `[table]` is of one"]);
}

#[test]
fn topics_by_pattern_take_what_fits_and_is_not_left_out() {
    let source = |lines: &str| format!("[source]\n{lines}\n{VALUE}[table]\nname = \"db.{{topic}}\"\n");
    let pipeline =
        parse_named(&source("topics = [\"cdc.*\", \"one\"]\nexclude = [\"*.heartbeat\", \"cdc.x\"]")).unwrap();
    for (topic, want) in [("cdc.a", true), ("one", true), ("two", false), ("cdc.a.heartbeat", false), ("cdc.x", false)]
    {
        assert_eq!(pipeline.source.takes(topic), want, "{topic}");
    }
    assert!(pipeline.source.has_patterns());
    check(&source("topics = [\"a\"]\nexclude = [\"b*\"]"), &["3:1 invalid `topics` has none"]);
    check(
        &source("topics = [\"a*\", \"b\"]\nexclude = [\"b\", \"c/\"]"),
        &["3:12 invalid left out here", "3:17 invalid not a topic"],
    );
    check(&source("topics = [\"a[bc]\"]"), &["2:11 invalid a pattern has `*`"]);
    // Kafka itself would warn of these two.
    check(&source("topics = [\"a.b\", \"a_b\"]"), &["2:10 invalid would share"]);
    check(&source("topics = [\"a.b\", \"c_*\"]"), &[]);
}
