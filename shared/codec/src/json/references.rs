//! What the `$ref`s of a JSON Schema lead to.

use super::document::Json;

/// A text that a schema consists of: its own, or one that it refers to.
pub(super) struct Document {
    /// By which name it is referred to; empty for the schema's own.
    pub(super) name: String,
    pub(super) json: Json,
}

/// The schema's own text, and those that it refers to.
pub(super) struct Documents(pub(super) Vec<Document>);

/// A place in one of them.
#[derive(Clone, Copy)]
pub(super) struct At<'d> {
    pub(super) document: usize,
    pub(super) json: &'d Json,
}

impl<'d> At<'d> {
    /// Tells it from every other place.
    pub(super) fn address(self) -> usize {
        std::ptr::from_ref(self.json) as usize
    }

    pub(super) fn member(self, name: &str) -> Option<Self> {
        self.json.member(name).map(|json| Self { json, ..self })
    }

    pub(super) fn all(self) -> Vec<Self> {
        self.json.elements().iter().map(|json| Self { json, ..self }).collect()
    }

    /// The elements of a member that is an array.
    pub(super) fn elements(self, name: &str) -> Vec<Self> {
        self.member(name).map(Self::all).unwrap_or_default()
    }

    pub(super) fn reference(self) -> Option<&'d str> {
        self.json.member("$ref").and_then(Json::as_text)
    }
}

impl Documents {
    pub(super) fn root(&self) -> Option<At<'_>> {
        self.0.first().map(|document| At { document: 0, json: &document.json })
    }

    /// What a reference leads to that stands at a place.
    ///
    /// # Errors
    /// Why it leads nowhere.
    pub(super) fn find<'d>(&'d self, from: At<'_>, reference: &str) -> Result<At<'d>, String> {
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let own = self.0.get(from.document);
        let within = if uri.is_empty() {
            own.map(|document| At { document: from.document, json: &document.json })
        } else {
            let base = own.and_then(|document| id(&document.json).or(Some(document.name.as_str())));
            let joined = base.map(|base| joined(base, uri)).unwrap_or_default();
            [uri, joined.as_str()].iter().find_map(|uri| self.named(uri))
        };
        let within = within.ok_or_else(|| format!("`{reference}` is not among what the schema refers to"))?;
        let fragment = decoded(fragment);
        let json = match fragment.starts_with('/') || fragment.is_empty() {
            true => within.json.at(&fragment),
            false => identified(within.json, &|json| {
                id(json).is_some_and(|id| id.strip_prefix('#') == Some(&fragment))
                    || json.member("$anchor").and_then(Json::as_text) == Some(&fragment)
            }),
        };
        json.map(|json| At { json, ..within }).ok_or_else(|| format!("`{reference}` leads to nothing"))
    }

    /// The document, or the part of one, that a URI names.
    fn named(&self, uri: &str) -> Option<At<'_>> {
        let is = |found: &str| found.trim_end_matches('#') == uri;
        let whole = self.0.iter().position(|document| is(&document.name) || id(&document.json).is_some_and(is));
        if let Some(document) = whole {
            return self.0.get(document).map(|found| At { document, json: &found.json });
        }
        self.0.iter().enumerate().find_map(|(document, found)| {
            let json = identified(&found.json, &|json| id(json).is_some_and(is))?;
            Some(At { document, json })
        })
    }
}

fn id(json: &Json) -> Option<&str> {
    ["$id", "id"].iter().find_map(|keyword| json.member(keyword)?.as_text())
}

/// The first part of a document that is so. Texts nest no deeper than their reader allows.
fn identified<'d>(json: &'d Json, is: &dyn Fn(&Json) -> bool) -> Option<&'d Json> {
    if json.is_object() && is(json) {
        return Some(json);
    }
    let members = json.members().iter().map(|(_, json)| json);
    members.chain(json.elements()).find_map(|json| identified(json, is))
}

/// A URI beside the one that a document has.
fn joined(base: &str, uri: &str) -> String {
    let base = base.split('#').next().unwrap_or_default();
    let authority = base.find("://").map_or(0, |at| at + 3);
    let path = base.get(authority..).unwrap_or_default();
    let folder = match uri.strip_prefix('/') {
        Some(_) => path.find('/').unwrap_or(path.len()),
        None => path.rfind('/').map_or(0, |at| at + 1),
    };
    format!("{}{}{uri}", base.get(..authority).unwrap_or_default(), path.get(..folder).unwrap_or_default())
}

/// A fragment without its percent signs.
fn decoded(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        let code = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match code.filter(|_| *byte == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(code) => {
                bytes.push(code);
                rest = behind.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*byte);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
