//! From the JSON of schemas to types, with their names resolved.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value as Json};
use sha2::{Digest as _, Sha256};

use super::schema::{Enum, Fault, Field, Fixed, Logical, Name, Record, Shape, Type, Unit};

/// Larger values of one fixed type are nobody's: a size is what a reader believes before it sees a byte.
const FIXED_MAX: u64 = 16 << 20;

/// More types than this in one schema are refused.
const TYPES_MAX: usize = 100_000;

/// Reads texts into types.
#[derive(Default)]
pub(super) struct Reader {
    types: Vec<Type>,
    names: HashMap<String, usize>,
    /// Record, field, and the default as it is written: it may be of a type that comes later.
    defaults: Vec<(usize, usize, Json)>,
    /// Of the texts so far.
    digest: Sha256,
}

/// Where something stands in the text's JSON.
#[derive(Clone, Copy)]
struct Place<'a> {
    outer: Option<&'a Place<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Member(&'a str),
    Element(&'a str, usize),
}

impl Place<'_> {
    const ROOT: Place<'static> = Place { outer: None, step: Step::Root };

    fn member<'b>(&'b self, name: &'b str) -> Place<'b> {
        Place { outer: Some(self), step: Step::Member(name) }
    }

    fn element<'b>(&'b self, name: &'b str, index: usize) -> Place<'b> {
        Place { outer: Some(self), step: Step::Element(name, index) }
    }

    fn fault(&self, message: impl Into<String>) -> Fault {
        let (mut steps, mut place) = (Vec::new(), Some(self));
        while let Some(found) = place {
            match found.step {
                Step::Root => {}
                Step::Member(name) => steps.push(name.to_owned()),
                Step::Element(name, index) => steps.push(format!("{name}[{index}]")),
            }
            place = found.outer;
        }
        steps.reverse();
        Fault { place: steps.join(".").replace(".[", "["), message: message.into() }
    }
}

/// What texts come to: their types, the one of a duration's parts, the defaults by record and field, and a digest.
type Parsed = (Vec<Type>, usize, Vec<(usize, usize, Json)>, String);

impl Reader {
    /// Ends with the types of all texts.
    pub(super) fn finish(mut self) -> Result<Parsed, Fault> {
        let part = self.add(Shape::Long, None, &Place::ROOT)?;
        let digest = self.digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok((self.types, part, self.defaults, digest))
    }

    /// Reads one more text; the place of its type.
    pub(super) fn text(&mut self, text: &str) -> Result<usize, Fault> {
        let json: Json = match serde_json::from_str(text) {
            Ok(json) => json,
            // A name alone, without quotes, is what some tools write for a primitive type.
            Err(_) if primitive(text.trim()).is_some() => Json::from(text.trim()),
            Err(error) => return Err(Place::ROOT.fault(format!("it is not JSON: {error}"))),
        };
        self.digest.update(json.to_string());
        self.digest.update("\n");
        self.any(&json, "", &Place::ROOT)
    }

    fn add(&mut self, shape: Shape, logical: Option<Logical>, place: &Place<'_>) -> Result<usize, Fault> {
        if self.types.len() >= TYPES_MAX {
            return Err(place.fault(format!("a schema has at most {TYPES_MAX} types")));
        }
        self.types.push(Type { shape, logical });
        Ok(self.types.len() - 1)
    }

    /// A schema within the namespace of what is around it. Recursion ends where the JSON parser's does.
    fn any(&mut self, json: &Json, namespace: &str, place: &Place<'_>) -> Result<usize, Fault> {
        match json {
            Json::String(name) => self.named(name, namespace, place),
            Json::Array(branches) => self.union(branches, namespace, place),
            Json::Object(object) => self.object(object, namespace, place),
            _ => Err(place.fault("a schema is a name, an object or an array")),
        }
    }

    fn named(&mut self, name: &str, namespace: &str, place: &Place<'_>) -> Result<usize, Fault> {
        if let Some(shape) = primitive(name) {
            return self.add(shape, None, place);
        }
        let full = qualified(name, namespace);
        // A name that its namespace doesn't have may be one without a namespace, as older writers have it.
        let found = self.names.get(&full).or_else(|| self.names.get(name));
        found.copied().ok_or_else(|| {
            let nearest = crate::naming::nearest(&full, self.names.keys().map(String::as_str));
            let hint = nearest.map_or(String::new(), |nearest| format!("; did you mean `{nearest}`?"));
            place.fault(format!("there is no type `{full}`{hint}"))
        })
    }

    fn union(&mut self, branches: &[Json], namespace: &str, place: &Place<'_>) -> Result<usize, Fault> {
        let mut ids: Vec<usize> = Vec::with_capacity(branches.len());
        for (index, branch) in branches.iter().enumerate() {
            let place = place.element("", index);
            let id = self.any(branch, namespace, &place)?;
            let name = |id: usize| self.types.get(id).map_or("", |found| found.shape.name());
            if name(id) == "union" {
                return Err(place.fault("a union holds no union itself"));
            }
            if ids.iter().any(|other| name(*other) == name(id)) {
                let name = name(id);
                return Err(place.fault(format!("the union has `{name}` twice")));
            }
            ids.push(id);
        }
        if ids.is_empty() {
            return Err(place.fault("a union has at least one type"));
        }
        self.add(Shape::Union(ids), None, place)
    }

    fn object(&mut self, object: &Map<String, Json>, namespace: &str, place: &Place<'_>) -> Result<usize, Fault> {
        let kind = object.get("type").ok_or_else(|| place.fault("it has no `type`"))?;
        let Json::String(kind) = kind else {
            // An object around another schema.
            let id = self.any(kind, namespace, &place.member("type"))?;
            return self.with_logical(id, object, place);
        };
        match kind.as_str() {
            "record" | "error" => self.record(object, namespace, place),
            "enum" => self.enumeration(object, namespace, place),
            "fixed" => {
                let name = self.name(object, namespace, place)?;
                let size = object.get("size").and_then(Json::as_u64).filter(|size| *size <= FIXED_MAX);
                let size = size.ok_or_else(|| {
                    place.member("size").fault(format!("it is a whole number of bytes up to {FIXED_MAX}"))
                })?;
                let full = name.full.clone();
                let shape = Shape::Fixed(Fixed { name, size: usize::try_from(size).unwrap_or(0) });
                let logical = logical(object, &shape);
                let id = self.add(shape, logical, place)?;
                self.names.insert(full, id);
                Ok(id)
            }
            "array" => {
                let items = object.get("items").ok_or_else(|| place.fault("an array has `items`"))?;
                let items = self.any(items, namespace, &place.member("items"))?;
                self.add(Shape::Array(items), None, place)
            }
            "map" => {
                let values = object.get("values").ok_or_else(|| place.fault("a map has `values`"))?;
                let values = self.any(values, namespace, &place.member("values"))?;
                self.add(Shape::Map(values), None, place)
            }
            name => {
                let id = self.named(name, namespace, &place.member("type"))?;
                self.with_logical(id, object, place)
            }
        }
    }

    /// The same type with a meaning of its own; a named type keeps the one of its definition.
    fn with_logical(&mut self, id: usize, object: &Map<String, Json>, place: &Place<'_>) -> Result<usize, Fault> {
        let Some(found) = self.types.get(id) else { return Ok(id) };
        match logical(object, &found.shape) {
            Some(logical) if found.logical.is_none() && !matches!(found.shape, Shape::Fixed(_)) => {
                let shape = found.shape.clone();
                self.add(shape, Some(logical), place)
            }
            _ => Ok(id),
        }
    }

    /// A named type's name, which is taken from here on.
    fn name(&self, object: &Map<String, Json>, namespace: &str, place: &Place<'_>) -> Result<Name, Fault> {
        let name = match object.get("name") {
            Some(Json::String(name)) => name,
            _ => return Err(place.fault("a named type has a `name`")),
        };
        let namespace = match object.get("namespace") {
            Some(Json::String(own)) => own,
            _ => namespace,
        };
        let full = qualified(name, namespace);
        if !full.split('.').all(is_name) {
            return Err(place.member("name").fault(format!(
                "`{full}` is no name: its parts begin with a letter or `_`, and have letters, digits and `_`"
            )));
        }
        if primitive(&full).is_some() {
            return Err(place.member("name").fault(format!("`{full}` is the name of a primitive type")));
        }
        if self.names.contains_key(&full) {
            return Err(place.member("name").fault(format!("`{full}` is defined twice")));
        }
        let aliases = texts(object, "aliases").into_iter().map(|alias| qualified(&alias, namespace_of(&full)));
        Ok(Name { aliases: aliases.collect(), full })
    }

    fn record(&mut self, object: &Map<String, Json>, namespace: &str, place: &Place<'_>) -> Result<usize, Fault> {
        let name = self.name(object, namespace, place)?;
        let Some(Json::Array(written)) = object.get("fields") else {
            return Err(place.fault(format!("the record `{}` has an array of `fields`", name.full)));
        };
        let (full, inside) = (name.full.clone(), namespace_of(&name.full).to_owned());
        // Known before its fields are read: they may be of it.
        let id = self.add(Shape::Record(Record { name, fields: Vec::new() }), None, place)?;
        self.names.insert(full, id);
        let mut fields: Vec<Field> = Vec::with_capacity(written.len());
        let mut known = HashSet::new();
        for (index, field) in written.iter().enumerate() {
            let place = place.element("fields", index);
            let Json::Object(object) = field else { return Err(place.fault("a field is an object")) };
            let name = match object.get("name") {
                Some(Json::String(name)) if is_name(name) => name.clone(),
                Some(Json::String(name)) => {
                    return Err(place.member("name").fault(format!(
                        "`{name}` is no name: one begins with a letter or `_`, and has letters, digits and `_`"
                    )));
                }
                _ => return Err(place.fault("a field has a `name`")),
            };
            if !known.insert(name.clone()) {
                return Err(place.member("name").fault(format!("the field `{name}` is there twice")));
            }
            let of = object.get("type").ok_or_else(|| place.fault(format!("the field `{name}` has no `type`")))?;
            // Some tools write the rest of a schema beside its type instead of around it.
            let of = match of {
                Json::String(kind) if matches!(kind.as_str(), "array" | "map") => {
                    self.object(object, &inside, &place)?
                }
                of => {
                    let of = self.any(of, &inside, &place.member("type"))?;
                    self.with_logical(of, object, &place)?
                }
            };
            if let Some(default) = object.get("default") {
                self.defaults.push((id, index, default.clone()));
            }
            let doc = object.get("doc").and_then(Json::as_str).map(str::to_owned);
            fields.push(Field { name, aliases: texts(object, "aliases"), doc, of, default: None });
        }
        if let Some(Type { shape: Shape::Record(record), .. }) = self.types.get_mut(id) {
            record.fields = fields;
        }
        Ok(id)
    }

    fn enumeration(&mut self, object: &Map<String, Json>, namespace: &str, place: &Place<'_>) -> Result<usize, Fault> {
        let name = self.name(object, namespace, place)?;
        let Some(Json::Array(written)) = object.get("symbols") else {
            return Err(place.fault(format!("the enum `{}` has an array of `symbols`", name.full)));
        };
        let mut symbols: Vec<String> = Vec::with_capacity(written.len());
        let mut known = HashSet::new();
        for (index, symbol) in written.iter().enumerate() {
            let place = place.element("symbols", index);
            match symbol {
                Json::String(symbol) if !is_name(symbol) => {
                    return Err(place.fault(format!("`{symbol}` is no name of letters, digits and `_`")));
                }
                Json::String(symbol) if !known.insert(symbol) => {
                    return Err(place.fault(format!("the symbol `{symbol}` is there twice")));
                }
                Json::String(symbol) => symbols.push(symbol.clone()),
                _ => return Err(place.fault("a symbol is a string")),
            }
        }
        let default = match object.get("default") {
            None | Some(Json::Null) => None,
            Some(default) => {
                let place = place.member("default");
                let symbol = default.as_str().ok_or_else(|| place.fault("an enum's default is a symbol"))?;
                let at = symbols.iter().position(|known| known == symbol);
                Some(at.ok_or_else(|| place.fault(format!("`{symbol}` is no symbol of the enum")))?)
            }
        };
        let full = name.full.clone();
        let id = self.add(Shape::Enum(Enum { name, symbols, default }), None, place)?;
        self.names.insert(full, id);
        Ok(id)
    }
}

fn primitive(name: &str) -> Option<Shape> {
    Some(match name {
        "null" => Shape::Null,
        "boolean" => Shape::Boolean,
        "int" => Shape::Int,
        "long" => Shape::Long,
        "float" => Shape::Float,
        "double" => Shape::Double,
        "bytes" => Shape::Bytes,
        "string" => Shape::String,
        _ => return None,
    })
}

fn qualified(name: &str, namespace: &str) -> String {
    if name.contains('.') || namespace.is_empty() {
        // A leading dot says that there is no namespace.
        name.trim_start_matches('.').to_owned()
    } else {
        format!("{namespace}.{name}")
    }
}

fn namespace_of(full: &str) -> &str {
    full.rsplit_once('.').map_or("", |(namespace, _)| namespace)
}

fn is_name(text: &str) -> bool {
    let mut letters = text.bytes();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == b'_')
}

fn texts(object: &Map<String, Json>, member: &str) -> Vec<String> {
    let all = object.get(member).and_then(Json::as_array);
    all.into_iter().flatten().filter_map(Json::as_str).map(str::to_owned).collect()
}

/// What an object says that values of a type mean. What can't be is not said, as the specification has it.
fn logical(object: &Map<String, Json>, shape: &Shape) -> Option<Logical> {
    let whole = |member: &str| object.get(member).and_then(Json::as_u64).and_then(|n| usize::try_from(n).ok());
    Some(match (object.get("logicalType")?.as_str()?, shape) {
        ("decimal", Shape::Bytes | Shape::Fixed(_)) => {
            let precision = whole("precision").filter(|precision| *precision > 0)?;
            let scale = if object.contains_key("scale") { whole("scale")? } else { 0 };
            let digits = match shape {
                Shape::Fixed(Fixed { size, .. }) => digits(*size),
                _ => usize::MAX,
            };
            (scale <= precision && precision <= digits).then_some(Logical::Decimal { precision, scale })?
        }
        ("uuid", Shape::String | Shape::Fixed(Fixed { size: 16, .. })) => Logical::Uuid,
        ("date", Shape::Int) => Logical::Date,
        ("time-millis", Shape::Int) => Logical::Time(Unit::Millis),
        ("time-micros", Shape::Long) => Logical::Time(Unit::Micros),
        ("timestamp-millis", Shape::Long) => Logical::Timestamp(Unit::Millis),
        ("timestamp-micros", Shape::Long) => Logical::Timestamp(Unit::Micros),
        ("timestamp-nanos", Shape::Long) => Logical::Timestamp(Unit::Nanos),
        ("local-timestamp-millis", Shape::Long) => Logical::Local(Unit::Millis),
        ("local-timestamp-micros", Shape::Long) => Logical::Local(Unit::Micros),
        ("local-timestamp-nanos", Shape::Long) => Logical::Local(Unit::Nanos),
        ("duration", Shape::Fixed(Fixed { size: 12, .. })) => Logical::Duration,
        _ => return None,
    })
}

/// Decimal digits that any number of this many bytes in two's complement has room for.
fn digits(bytes: usize) -> usize {
    // log10(2) to ten places, which is exact for sizes far beyond any number's.
    match bytes {
        0 => 0,
        bytes => (bytes * 8 - 1).saturating_mul(3_010_299_956) / 10_000_000_000,
    }
}
