//! Whether a column can stand in a pipeline file: one odd name must not cost all the others.

use std::path::Path;

use codec::payload::Schema;
use pipeline::Environment;

use super::quoted;

/// A column by itself, and what a person can do where it can't be one.
pub(super) struct Trial<'a> {
    /// The member of the values.
    pub(super) member: &'a str,
    /// The column's type, as the file has it.
    pub(super) data_type: &'a str,
}

impl Trial<'_> {
    /// Why the file can't have this line of `[table.columns]`, and how the member is taken all the same; none where it can.
    pub(super) fn refused(&self, line: &str) -> Option<String> {
        let why = fault(line)?;
        // What else it says is for those who wrote the line.
        let why = why.split("; ").next().unwrap_or_default();
        let from = quoted(&pipeline::path::text(&[self.member]));
        let as_type = |data_type: &str| format!("{{ from = {from}, type = {} }}", quoted(data_type));
        // By a name of a person's choice, as it is or as its JSON.
        let types = [self.data_type, "string"];
        let way = types.into_iter().map(as_type).find(|column| fault(&format!("chosen = {column}")).is_none());
        let way = match way {
            Some(column) => format!("to have it, write `NAME = {column}`, by a name of your choice"),
            None => "to have it, set `unknown_fields = \"rest\"`: it is in `_rest` then".to_owned(),
        };
        Some(format!("{why}; {way}"))
    }
}

/// What is wrong with a pipeline that has this column alone.
pub(super) fn fault(line: &str) -> Option<String> {
    let text = format!(
        "[source]\ntopics = [\"t\"]\n[value]\nformat = \"json\"\nframing = \"bare\"\n[table]\nname = \"lake.t\"\n\
         [table.columns]\n{line}\n"
    );
    let read = pipeline::file::parse(&text, &Environment::embedded(""), Path::new("t.toml"));
    let planned = read.map_err(|faults| faults.into_iter().next().map(|fault| fault.message)).and_then(|pipeline| {
        let schema = Schema::of(&pipeline).map_err(|error| Some(error.to_string()))?;
        let columns = codec::columns::plan_tables(&schema, &pipeline);
        columns.map_err(|faults| faults.into_iter().next().map(|fault| fault.message))
    });
    planned.err().map(|why| why.unwrap_or_else(|| "it can be no column".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_no_column_is_told_with_a_way_to_have_it() {
        let refused = |member: &str, data_type: &str, line: &str| Trial { member, data_type }.refused(line);
        assert_eq!(refused("id", "long", "id = { type = \"long\" }"), None);
        let says = |member: &str, line: &str, way: &str| {
            let said = refused(member, "long", line).unwrap_or_else(|| panic!("{line}"));
            assert!(said.ends_with(way), "{said}");
        };
        says(
            "_kafka_offset",
            "_kafka_offset = { type = \"long\" }",
            "write `NAME = { from = \"_kafka_offset\", type = \"long\" }`, by a name of your choice",
        );
        says(
            "",
            "\"\" = { from = \"\\\"\\\"\", type = \"long\" }",
            "set `unknown_fields = \"rest\"`: it is in `_rest` then",
        );
    }
}
