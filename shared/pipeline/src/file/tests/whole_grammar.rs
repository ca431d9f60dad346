use super::{SOURCE, TABLE, VALUE, parse_named};
use crate::fault::code;
use crate::schema::tests::of_pipeline;

/// One file per line of the whole grammar, as the design has it: `Ok` or the text that is refused by name. The schema for
/// editors says the same of each.
#[test]
fn the_whole_grammar_is_accepted_or_refused_by_name() {
    let cases: &[(&str, &str, Result<(), &str>)] = &[
        ("source", "topics = [\"${prefix}a\"]", Ok(())),
        ("source", "topics = [\"cdc.public.*\"]", Ok(())),
        ("source", "topics = [\"cdc.public.*\"]\nexclude = [\"*.heartbeat\"]", Ok(())),
        ("source", "name = \"orders-cluster\"", Ok(())),
        ("value", "format = \"protobuf\"", Ok(())),
        ("value", "format = \"avro\"\nschema = { avsc = \"x.avsc\" }", Ok(())),
        ("value", "format = \"avro\"\nschema = { registry = \"main\", name = \"orders-value\" }", Ok(())),
        ("value", "format = \"json\"\nschema = { json_schema = \"x.json\" }", Ok(())),
        ("value", "format = \"json\"\nschema = { registry = \"main\", name = \"orders-value\" }", Ok(())),
        ("value", "format = \"dms\"", Err("format = \"dms\"")),
        ("value", "format = \"debezium\"", Err("format = \"debezium\"")),
        ("value", "framing = \"bare\"", Ok(())),
        ("value", "framing = \"auto\"", Ok(())),
        ("value", "framing = \"glue\"", Ok(())),
        ("value", "framing = \"confluent\"", Ok(())),
        ("value", "format = \"avro\"\nframing = \"avro-single-object\"\nschema = { avsc = \"x.avsc\" }", Ok(())),
        ("value", "schema = { descriptor = \"x.desc\", message = \"p.M\" }", Ok(())),
        ("value", "schema = { registry = \"main\", name = \"Employee.proto\", message = \"p.M\" }", Ok(())),
        ("value", "schema = { registries = [\"main\", \"old\"], name = \"Employee.proto\" }", Ok(())),
        ("value", "keep_raw = false", Ok(())),
        ("value", "keep_raw = true", Err("keep_raw = true")),
        ("value", "unavailable = \"__debezium_unavailable_value\"", Err("unavailable")),
        ("value", "framing = \"auto\"\nconfluent_indexes = \"zigzag\"", Ok(())),
        ("value", "filter = { field = \"type\", in = [\"click\"] }", Ok(())),
        ("value", "explode = \"events\"", Ok(())),
        ("table", "name = \"${db}.employee\"", Ok(())),
        ("table", "name = \"db.{topic}\"", Ok(())),
        ("table", "name = \"{schema}.x\"", Err("{schema}")),
        ("table", "name = \"x.{table}\"", Err("{table}")),
        ("table", "name = \"x.{field:tenant}\"", Ok(())),
        ("table", "name = \"x.{header:type}\"", Ok(())),
        ("table", "exists = \"create\"", Ok(())),
        ("table", "exists = \"must-be-new\"", Ok(())),
        ("table", "exists = \"join\"", Ok(())),
        ("table", "mode = \"append\"", Ok(())),
        ("table", "mode = \"dedup\"\nprimary_key = [\"a\"]", Ok(())),
        ("table", "mode = \"upsert\"\nprimary_key = [\"a\"]", Ok(())),
        ("table", "mode = \"changelog\"", Err("mode = \"changelog\"")),
        ("table", "mode = \"mirror\"", Err("mode = \"mirror\"")),
        ("table", "primary_key = [\"a\"]", Ok(())),
        ("table", "primary_key = \"record-key\"", Err("primary_key = \"record-key\"")),
        (
            "table",
            "mode = \"dedup\"\nprimary_key = [\"a\"]\ndedup_within = { column = \"at\", lookback = \"1h\", late = \"keep\" }",
            Ok(()),
        ),
        ("table", "mode = \"upsert\"\nprimary_key = [\"a\"]\norder_by = [\"updated_at\"]", Ok(())),
        ("table", "mode = \"upsert\"\nprimary_key = [\"a\"]\nwrite = \"auto\"", Ok(())),
        ("table", "mode = \"upsert\"\nprimary_key = [\"a\"]\nwrite = \"merge-on-read\"", Ok(())),
        ("table", "mode = \"upsert\"\nprimary_key = [\"a\"]\nwrite = \"copy-on-write\"", Ok(())),
        ("table", "mode = \"upsert\"\nprimary_key = [\"a\"]\ndeletes = \"hard\"", Ok(())),
        ("table", "mode = \"upsert\"\nprimary_key = [\"a\"]\ndeletes = \"ignore\"", Ok(())),
        ("table", "mode = \"upsert\"\nprimary_key = [\"a\"]\ndeletes = \"soft\"", Ok(())),
        ("table", "tombstones = \"filter\"", Ok(())),
        ("table", "tombstones = \"keep\"", Err("tombstones = \"keep\"")),
        ("table", "mode = \"dedup\"\nprimary_key = [\"a\"]\nnull_keys = \"match\"", Ok(())),
        ("table", "mode = \"upsert\"\nprimary_key = [\"a\"]\nnull_keys = \"reject\"", Ok(())),
        ("table", "on_truncate = \"stop\"", Err("on_truncate")),
        ("table", "format_version = 2", Ok(())),
        ("table", "format_version = 3", Err("format_version = 3")),
        ("table", "partition_by = [\"day(at)\"]", Ok(())),
        ("table", "sort_by = [\"at desc\"]", Ok(())),
        ("table", "fields = \"all\"", Ok(())),
        ("table", "exclude = [\"ssn\"]", Ok(())),
        ("table", "unknown_fields = \"ignore\"", Ok(())),
        ("table", "unknown_fields = \"dead-letter\"", Ok(())),
        ("table", "unknown_fields = \"rest\"", Ok(())),
        ("table", "column_case = \"snake\"", Ok(())),
        ("table", "types = \"iceberg\"", Ok(())),
        ("table", "record_columns = false", Ok(())),
        ("table", "maintain = \"frazil\"", Err("maintain")),
        ("table", "dead_letters = \"${db}_quarantine\"", Err("dead_letters")),
        ("table", "columns.a = { from = \"id\", type = \"long\", required = true, doc = \"d\" }", Ok(())),
        ("table", "columns.a = { from = \"@topic\" }", Ok(())),
        ("table", "columns.a = \"@ingested_at\"", Ok(())),
        ("table", "columns.a = \"@key\"", Ok(())),
        ("table", "columns.a = \"@header.NAME\"", Ok(())),
        ("table", "columns.a = { type = \"timestamptz\", unit = \"ms\" }", Ok(())),
        ("table", "columns.a = { default = 1 }", Err("default")),
        ("table", "columns.a = { pii = \"hash\" }", Ok(())),
        ("table", "columns.a = { min = 0 }", Ok(())),
        ("table", "columns.a = { max = 1000000 }", Ok(())),
        ("table", "columns.a = { pattern = \"x\" }", Ok(())),
        ("table", "columns.a = { in = [1] }", Ok(())),
        ("table", "properties.\"write.metadata.compression-codec\" = \"gzip\"", Ok(())),
        (
            "key",
            "format = \"json\"\nframing = \"auto\"\n[table.columns]\nk = { from = \"@key.id\", type = \"long\" }",
            Ok(()),
        ),
        (
            "key",
            "format = \"avro\"\nframing = \"glue\"\nschema = { avsc = \"k.avsc\" }\n[table.columns]\nk = \"@key.a.b\"",
            Ok(()),
        ),
        ("tables.\"public.orders\"", "partition_by = [\"month(created_at)\"]", Ok(())),
        ("tables.orders", "mode = \"dedup\"\nprimary_key = [\"a\"]", Ok(())),
        ("tables.orders", "mode = \"upsert\"\nprimary_key = [\"a\"]\norder_by = [\"b\"]", Ok(())),
        ("tables.orders", "sort_by = [\"a\"]", Ok(())),
        ("tables.orders", "properties.\"write.format.default\" = \"parquet\"", Ok(())),
        ("fold", "max_age = \"60s\"", Ok(())),
        ("fold", "max_bytes = \"512MiB\"", Ok(())),
        ("fold", "max_rows = 50000000", Ok(())),
        ("fold", "tables_max = 1000", Ok(())),
        ("fold", "memory = \"auto\"", Ok(())),
        ("fold", "memory = \"4GiB\"", Ok(())),
        ("staging", "retention = \"7d\"", Ok(())),
    ];
    for (block, line, expected) in cases {
        // The lines take the place of those that the smallest good file has under the same keys.
        let keys: Vec<&str> = line.lines().map(|line| line.split('=').next().unwrap()).collect();
        let mut text = String::new();
        for (name, body) in [("source", SOURCE), ("value", VALUE), ("table", TABLE)] {
            for old in body.lines().filter(|old| name != *block || !keys.iter().any(|key| old.starts_with(key))) {
                text.push_str(old);
                text.push('\n');
            }
            if name == *block {
                text.push_str(line);
                text.push('\n');
            }
        }
        if block.starts_with("tables") {
            text = text.replace("name = \"", "name = \"db.{topic}\" # \"");
        }
        if !["source", "value", "table"].contains(block) {
            text.push_str(&format!("[{block}]\n{line}\n"));
        }
        assert_eq!(of_pipeline(&text).is_empty(), expected.is_ok(), "the schema of {line}: {:?}", of_pipeline(&text));
        match (parse_named(&text), expected) {
            (Ok(_), Ok(())) => {}
            (Err(found), Err(what)) => {
                assert_eq!(found.len(), 1, "{line}: {found:#?}");
                assert_eq!(found[0].code, code::NOT_YET, "{line}: {found:#?}");
                let message = format!("`{what}` is part of the grammar but not of this version");
                assert_eq!(found[0].message, message, "{line}");
            }
            (found, _) => panic!("{line}: {found:#?}"),
        }
    }
}
