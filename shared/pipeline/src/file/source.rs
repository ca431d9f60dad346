//! `[source]`: where records come from.

use std::collections::BTreeSet;

use crate::document::Section;
use crate::fault::code;
use crate::glob;
use crate::name;
use crate::reader::Reader;
use crate::resolved::Source;

pub(super) fn read<'t>(reader: &mut Reader<'t>, section: Section<'t>) -> Source {
    let mut seen = BTreeSet::new();
    let mut topics = Vec::new();
    for text in reader.texts(section, "topics") {
        if let Err(message) = topic(&text.value) {
            reader.fault(text.at, code::INVALID, message);
        } else if glob::is_brokers_own(&text.value) {
            let message = format!("`{}` is the brokers' own: no messages are in it", text.value);
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
    let mut exclude = Vec::new();
    for text in reader.texts(section, "exclude") {
        if let Err(message) = topic(&text.value) {
            reader.fault(text.at, code::INVALID, message);
        } else if exclude.contains(&text.value) {
            reader.fault(text.at, code::DUPLICATE, format!("`{}` is there twice", text.value));
        } else if let Some(topic) = topics.iter().find(|topic| **topic == text.value) {
            reader.fault(text.at, code::INVALID, format!("`{topic}` is one of `topics`, and left out here"));
        } else {
            exclude.push(text.value);
        }
    }
    if let Some(entry) = section.get("exclude").filter(|_| !topics.iter().any(|topic| glob::is_glob(topic))) {
        let message = "`exclude` is for patterns such as \"cdc.public.*\", and `topics` has none";
        reader.fault(entry.key_at, code::INVALID, message);
    }
    let source_name = reader.text(section, "name");
    if let Some(text) = &source_name
        && text.value.trim().is_empty()
    {
        reader.fault(text.at, code::INVALID, "a source's name is not empty");
    }
    Source { topics, exclude, name: source_name.map(|text| text.value) }
}

/// A topic's name, or a pattern of such.
fn topic(text: &str) -> Result<(), String> {
    if text.contains(['[', ']', '{', '}']) {
        return Err(format!("`{text}`: a pattern has `*` for any text and `?` for one character, and no other"));
    }
    // What stands for other characters is as long as one of them, at least.
    name::topic(&text.replace(['*', '?'], "a"))
}
