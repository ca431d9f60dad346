//! `[source]`: where records come from.

use std::collections::BTreeSet;

use crate::document::Section;
use crate::fault::code;
use crate::name;
use crate::reader::Reader;
use crate::resolved::Source;

pub(super) fn read<'t>(reader: &mut Reader<'t>, section: Section<'t>) -> Source {
    let mut seen = BTreeSet::new();
    let mut topics = Vec::new();
    for text in reader.texts(section, "topics") {
        if name::glob(&text.value) {
            reader.not_yet(text.at, &format!("topics = [{:?}]", text.value));
        } else if let Err(message) = name::topic(&text.value) {
            reader.fault(text.at, code::INVALID, message);
        } else if seen.insert(text.value.clone()) {
            reader.items.push((format!("source.topics[{}]", topics.len()), text.at));
            topics.push(text.value);
        } else {
            reader.fault(text.at, code::DUPLICATE, format!("the topic `{}` is there twice", text.value));
        }
    }
    match section.get("topics") {
        None => reader.fault(section.at, code::MISSING, "`[source]` needs `topics`"),
        Some(entry) if entry.is_empty_array() => {
            reader.fault(entry.value_at(), code::INVALID, "`topics` names at least one topic");
        }
        Some(_) => {}
    }
    let source_name = reader.text(section, "name");
    if let Some(text) = &source_name
        && text.value.trim().is_empty()
    {
        reader.fault(text.at, code::INVALID, "a source's name is not empty");
    }
    Source { topics, name: source_name.map(|text| text.value) }
}
