//! From the text of a JSON Schema to shapes.
//!
//! Sources: drafts 4, 6 and 7 of JSON Schema; the keywords that Kafka Connect's JSON Schema converter adds, and the titles that
//! Connect and Debezium give their types.

use std::collections::{HashMap, HashSet};

use sha2::{Digest as _, Sha256};

use super::document::Json;
use super::hints::{self, Hints};
use super::references::{At, Document, Documents};
use super::schema::{Fault, Field, Object, Of, Schema, Shape, Single};
use crate::schema::Import;
use pipeline::types::Type;

/// What nests deeper than this is kept as JSON text: columns end long before.
const DEPTH_MAX: usize = 64;

/// More shapes than this in one schema are refused.
const SHAPES_MAX: usize = 100_000;

/// Keywords that say nothing of what a value looks like.
const ASIDE: [&str; 17] = [
    "$ref",
    "$id",
    "id",
    "$schema",
    "$comment",
    "$anchor",
    "title",
    "description",
    "default",
    "examples",
    "definitions",
    "$defs",
    "nullable",
    "readOnly",
    "writeOnly",
    "deprecated",
    "connect.index",
];

pub(super) fn schema(text: &str, imports: &[Import]) -> Result<Schema, Fault> {
    let document = |name: &str, text: &str| {
        let json = Json::parse(text).map_err(|message| Fault { place: name.to_owned(), message })?;
        Ok(Document { name: name.to_owned(), json })
    };
    let mut documents = vec![document("", text)?];
    for import in imports {
        documents.push(document(&import.name, &import.text)?);
    }
    let (mut digest, mut compact) = (Sha256::new(), String::new());
    for document in &documents {
        document.json.compact(&mut compact);
        compact.push('\n');
        digest.update(std::mem::take(&mut compact));
    }
    let documents = Documents(documents);
    let Some(root) = documents.root() else { return Err(fault("", "there is no schema")) };
    let mut parser = Parser { documents: &documents, shapes: Vec::new(), known: HashMap::new() };
    let of = parser.any(root, "", 0)?;
    let root_shape = match parser.shapes.get(of) {
        Some(Shape::Object(_)) | None => of,
        // What is in it is not known, but it is an object.
        Some(Shape::Single(Single { of: Of::Any, .. }) | Shape::Map(_)) => {
            parser.add(Shape::Object(Object::default()), "")?
        }
        Some(_) => return Err(fault("", "it is no schema of objects, and a payload is one")),
    };
    let named = ["title", "$id", "id"].iter().find_map(|keyword| root.json.member(keyword)?.as_text());
    Ok(Schema {
        shapes: parser.shapes,
        root: root_shape,
        name: named.unwrap_or("JSON").to_owned(),
        digest: digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect(),
        declared: false,
    })
}

pub(super) fn fault(place: &str, message: impl Into<String>) -> Fault {
    Fault { place: place.to_owned(), message: message.into() }
}

struct Parser<'d> {
    documents: &'d Documents,
    shapes: Vec<Shape>,
    /// The shape of what stands at an address.
    known: HashMap<usize, usize>,
}

/// What a schema says of a value besides its shape, gathered on the way to what says it.
struct Trail<'d> {
    target: At<'d>,
    nullable: bool,
    doc: Option<String>,
    default: Option<&'d Json>,
}

/// A schema with everything that it is also said to be: `allOf`, and what is referred to beside other keywords.
struct Parts<'d>(Vec<At<'d>>);

impl<'d> Parts<'d> {
    fn get(&self, keyword: &str) -> Option<At<'d>> {
        self.0.iter().find_map(|at| at.member(keyword))
    }

    fn text(&self, keyword: &str) -> Option<&'d str> {
        self.0.iter().find_map(|at| at.json.member(keyword)?.as_text())
    }

    /// The values of `enum` or `const`, without null.
    fn values(&self) -> Option<Vec<&'d Json>> {
        let listed = self.get("enum").map(|at| at.json.elements().iter().collect());
        let values: Vec<&Json> = listed.or_else(|| self.get("const").map(|at| vec![at.json]))?;
        Some(values.into_iter().filter(|value| !matches!(value, Json::Null)).collect())
    }

    /// The texts that `enum` or `const` lists, where it lists nothing else.
    fn symbols(&self) -> Option<Vec<String>> {
        let values = self.values()?;
        let texts: Vec<String> = values.iter().filter_map(|value| value.as_text().map(str::to_owned)).collect();
        (texts.len() == values.len() && !texts.is_empty()).then_some(texts)
    }

    fn hints(&self) -> Hints<'d> {
        let parameter = |name: &str| {
            let parameters = self.get("connect.parameters")?;
            parameters.json.member(name)?.as_text()
        };
        Hints {
            name: self.text("connect.name").or_else(|| self.text("title")),
            connect: self.text("connect.type"),
            format: self.text("format"),
            encoding: self.text("contentEncoding"),
            scale: parameter("scale"),
            precision: parameter("connect.decimal.precision"),
        }
    }
}

impl<'d> Parser<'d> {
    fn add(&mut self, shape: Shape, place: &str) -> Result<usize, Fault> {
        if self.shapes.len() >= SHAPES_MAX {
            return Err(fault(place, format!("a schema has at most {SHAPES_MAX} parts")));
        }
        self.shapes.push(shape);
        Ok(self.shapes.len() - 1)
    }

    /// The shape of a schema. One that leads back to itself is the same shape again.
    fn any(&mut self, at: At<'d>, place: &str, depth: usize) -> Result<usize, Fault> {
        let target = self.trail(at, place)?.target;
        if let Some(known) = self.known.get(&target.address()) {
            return Ok(*known);
        }
        let id = self.add(any(), place)?;
        if depth > DEPTH_MAX {
            return Ok(id);
        }
        self.known.insert(target.address(), id);
        let shape = self.shape(target, place, depth)?;
        if let Some(found) = self.shapes.get_mut(id) {
            *found = shape;
        }
        Ok(id)
    }

    /// Follows what is nothing but a reference, or something or null.
    fn trail(&self, at: At<'d>, place: &str) -> Result<Trail<'d>, Fault> {
        let mut trail = Trail { target: at, nullable: false, doc: None, default: None };
        let mut seen = HashSet::new();
        loop {
            let at = trail.target;
            if !seen.insert(at.address()) {
                return Err(fault(place, "it refers to itself"));
            }
            if !at.json.is_schema() {
                return Err(fault(place, "a schema is an object, `true` or `false`"));
            }
            let text = |keyword: &str| at.json.member(keyword).and_then(Json::as_text).map(str::to_owned);
            trail.doc = trail.doc.or_else(|| text("description"));
            trail.default = trail.default.or_else(|| at.json.member("default"));
            trail.nullable |= matches!(at.json.member("nullable"), Some(Json::Boolean(true))) || types_null(at);
            let says: Vec<&str> =
                at.json.members().iter().map(|(name, _)| name.as_str()).filter(|name| !ASIDE.contains(name)).collect();
            let next = match (at.reference(), says.as_slice()) {
                (Some(reference), []) => {
                    Some(self.documents.find(at, reference).map_err(|message| fault(place, message))?)
                }
                (None, ["allOf"]) => match at.elements("allOf").as_slice() {
                    [only] => Some(*only),
                    _ => None,
                },
                (None, [keyword @ ("oneOf" | "anyOf")]) => {
                    let branches = at.elements(keyword);
                    let mut others = branches.iter().filter(|branch| !is_null(**branch));
                    let (first, second) = (others.next(), others.next());
                    trail.nullable |= branches.iter().any(|branch| is_null(*branch));
                    first.filter(|_| second.is_none()).copied()
                }
                _ => None,
            };
            match next {
                Some(next) => trail.target = next,
                None => return Ok(trail),
            }
        }
    }

    fn parts(&self, at: At<'d>, place: &str) -> Result<Parts<'d>, Fault> {
        let (mut parts, mut seen, mut open) = (Vec::new(), HashSet::new(), vec![at]);
        while let Some(at) = open.pop() {
            if !seen.insert(at.address()) {
                continue;
            }
            parts.push(at);
            if let Some(reference) = at.reference() {
                open.push(self.documents.find(at, reference).map_err(|message| fault(place, message))?);
            }
            open.extend(at.elements("allOf").into_iter().rev());
        }
        Ok(Parts(parts))
    }

    fn shape(&mut self, at: At<'d>, place: &str, depth: usize) -> Result<Shape, Fault> {
        let parts = self.parts(at, place)?;
        let types = match parts.get("type") {
            Some(of) => types(of.json, place)?,
            None => self.inferred(&parts),
        };
        Ok(match types.as_slice() {
            ["object"] => return self.object(&parts, place, depth),
            ["array"] => return self.array(&parts, place, depth),
            ["string"] => {
                let mut single = hints::text(&parts.hints());
                single.symbols = parts.symbols().filter(|_| single.default == Type::String);
                Shape::Single(single)
            }
            ["integer"] => Shape::Single(hints::integer(&parts.hints())),
            ["number"] | ["integer", "number"] | ["number", "integer"] => Shape::Single(hints::number(&parts.hints())),
            ["boolean"] => Shape::Single(Single::new(Of::Boolean, Type::Boolean)),
            [] => {
                let branches = ["oneOf", "anyOf"].iter().find_map(|keyword| parts.get(keyword));
                let branches = branches.map(|at| at.all()).unwrap_or_default();
                return self.union(&branches, place, depth);
            }
            _ => any(),
        })
    }

    /// The type of what does not name one, as far as other keywords tell.
    fn inferred(&self, parts: &Parts<'d>) -> Vec<&'static str> {
        let of = |value: &&Json| match value {
            Json::Text(_) => "string",
            Json::Boolean(_) => "boolean",
            Json::Number(digits) if digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') => "integer",
            Json::Number(_) => "number",
            Json::Array(_) => "array",
            Json::Object(_) | Json::Null => "object",
        };
        if let Some(values) = parts.values() {
            let mut types: Vec<&str> = values.iter().map(of).collect();
            types.sort_unstable();
            types.dedup();
            // Values of objects say nothing of their members.
            return if matches!(types.as_slice(), [] | ["object"] | ["array"]) {
                vec!["object", "array"]
            } else {
                types
            };
        }
        if parts.get("properties").is_some() || parts.get("additionalProperties").is_some_and(|at| at.json.is_object())
        {
            vec!["object"]
        } else if parts.get("items").is_some() {
            vec!["array"]
        } else {
            Vec::new()
        }
    }

    /// Several schemas that may each be the value's: one shape where it is the same for all, else whatever JSON has.
    fn union(&mut self, branches: &[At<'d>], place: &str, depth: usize) -> Result<Shape, Fault> {
        let mut united: Option<Single> = None;
        for branch in branches.iter().filter(|branch| !is_null(**branch)) {
            let of = self.any(*branch, place, depth + 1)?;
            let Some(Shape::Single(single)) = self.shapes.get(of) else { return Ok(any()) };
            united = Some(match united {
                None => single.clone(),
                Some(before)
                    if before.of == single.of && before.default == single.default && before.unit == single.unit =>
                {
                    let symbols = before.symbols.zip(single.symbols.clone());
                    Single { symbols: symbols.map(|(one, other)| [one, other].concat()), ..single.clone() }
                }
                Some(_) => return Ok(any()),
            });
        }
        Ok(united.map_or_else(any, Shape::Single))
    }

    fn array(&mut self, parts: &Parts<'d>, place: &str, depth: usize) -> Result<Shape, Fault> {
        let of = match parts.get("items") {
            // Elements that differ by their places.
            Some(At { json: Json::Array(_), .. }) => return Ok(any()),
            Some(items) => self.any(items, &format!("{place}/items"), depth + 1)?,
            None => self.add(any(), place)?,
        };
        Ok(Shape::Array(of))
    }

    fn object(&mut self, parts: &Parts<'d>, place: &str, depth: usize) -> Result<Shape, Fault> {
        let required: HashSet<&str> = parts
            .0
            .iter()
            .filter_map(|at| at.json.member("required"))
            .flat_map(|names| names.elements().iter().filter_map(Json::as_text))
            .collect();
        let (mut fields, mut names) = (Vec::new(), HashSet::new());
        for properties in parts.0.iter().filter_map(|at| at.member("properties")) {
            if !properties.json.is_object() {
                return Err(fault(&format!("{place}/properties"), "`properties` is an object"));
            }
            for (name, json) in properties.json.members() {
                // One without a name is no column: it is left to what is done with those that are not known.
                if !name.is_empty() && names.insert(name) {
                    let at = At { json, ..properties };
                    let pointer = format!("{place}/properties/{}", name.replace('~', "~0").replace('/', "~1"));
                    let Trail { nullable, doc, default, .. } = self.trail(at, &pointer)?;
                    let default = default.filter(|default| !matches!(default, Json::Null)).map(|json| {
                        let mut text = String::new();
                        json.compact(&mut text);
                        text
                    });
                    let of = self.any(at, &pointer, depth + 1)?;
                    let optional = nullable || !required.contains(name.as_str()) || default.is_some();
                    fields.push((index(json), Field { name: name.clone(), doc, of, optional, default }));
                }
            }
        }
        if !fields.is_empty() {
            // Connect's converter says which order its fields have.
            fields.sort_by_key(|(index, _)| *index);
            let title = parts.text("title").map(str::to_owned);
            return Ok(Shape::Object(Object { title, fields: fields.into_iter().map(|(_, field)| field).collect() }));
        }
        if let Some(values) = parts.get("additionalProperties").filter(|at| at.json.is_object()) {
            let of = self.any(values, &format!("{place}/additionalProperties"), depth + 1)?;
            if !matches!(self.shapes.get(of), Some(Shape::Single(Single { of: Of::Any, .. })) | None) {
                return Ok(Shape::Map(of));
            }
        }
        Ok(any())
    }
}

fn index(json: &Json) -> u64 {
    match json.member("connect.index") {
        Some(Json::Number(digits)) => digits.parse().unwrap_or(u64::MAX),
        _ => u64::MAX,
    }
}

const fn any() -> Shape {
    Shape::Single(Single::new(Of::Any, Type::String))
}

/// Whether null is among the types that are named, or the values that are listed.
fn types_null(at: At<'_>) -> bool {
    let named =
        at.json.member("type").is_some_and(|of| of.elements().iter().any(|name| name.as_text() == Some("null")));
    named
        || at
            .json
            .member("enum")
            .is_some_and(|values| values.elements().iter().any(|value| matches!(value, Json::Null)))
}

/// Whether a schema is of null and nothing else.
fn is_null(at: At<'_>) -> bool {
    let only = |values: &Json| matches!(values.elements(), [Json::Null]);
    at.json.member("type").and_then(Json::as_text) == Some("null")
        || matches!(at.json.member("const"), Some(Json::Null))
        || at.json.member("enum").is_some_and(only)
}

const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "string", "integer"];

/// The types that `type` names, without null.
fn types<'d>(of: &'d Json, place: &str) -> Result<Vec<&'d str>, Fault> {
    let names: Vec<&Json> = match of {
        Json::Array(names) => names.iter().collect(),
        name => vec![name],
    };
    let mut types = Vec::with_capacity(names.len());
    for name in names {
        match name.as_text() {
            Some("null") => {}
            Some(name) if TYPES.contains(&name) => types.push(name),
            Some(name) => {
                let nearest = crate::naming::nearest(name, TYPES);
                let hint = nearest.map_or(String::new(), |nearest| format!("; did you mean `{nearest}`?"));
                return Err(fault(&format!("{place}/type"), format!("there is no type `{name}`{hint}")));
            }
            None => return Err(fault(&format!("{place}/type"), "`type` is a name or an array of names")),
        }
    }
    // Null alone is as good as anything: nothing but null comes.
    Ok(if types.is_empty() { vec!["object", "array"] } else { types })
}
