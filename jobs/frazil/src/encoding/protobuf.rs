//! JSON as protobuf's own mapping has it ("ProtoJSON Format"), to messages of prost-reflect. Its own reader of JSON would bring
//! a third version of another crate.

use std::collections::HashMap;

use codec::json::Json;
use codec::protobuf::is_wrapper;
use prost_reflect::prost::Message as _;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage, Value as Proto};

use super::{Misfit, boolean, bytes, elements, float, members, ranged, single, text, times};

/// How deep values may nest, as protobuf's own readers have it.
const DEPTH_MAX: usize = 100;

/// The bytes of a message.
///
/// # Errors
/// Why the value is none.
pub(super) fn encode(message: &MessageDescriptor, value: &Json) -> Result<Vec<u8>, Misfit> {
    Ok(self::message(message, value, DEPTH_MAX)?.encode_to_vec())
}

fn message(kind: &MessageDescriptor, value: &Json, depth: usize) -> Result<DynamicMessage, Misfit> {
    let depth = depth.checked_sub(1).ok_or_else(|| Misfit::new(format!("it nests more than {DEPTH_MAX} deep")))?;
    let mut made = DynamicMessage::new(kind.clone());
    match kind.full_name() {
        "google.protobuf.Timestamp" => {
            let nanos = times::instant_nanos(text(value)?).ok_or_else(|| Misfit::new("it is no RFC 3339 time"))?;
            seconds(&mut made, nanos.div_euclid(times::SECOND), nanos.rem_euclid(times::SECOND))?;
        }
        "google.protobuf.Duration" => {
            let nanos =
                times::duration_nanos(text(value)?).ok_or_else(|| Misfit::new("it is no duration such as \"1.5s\""))?;
            seconds(&mut made, nanos / times::SECOND, nanos % times::SECOND)?;
        }
        name if is_wrapper(name) => put(&mut made, "value", value, depth)?,
        "google.protobuf.Struct" => put(&mut made, "fields", value, depth)?,
        "google.protobuf.ListValue" => put(&mut made, "values", value, depth)?,
        "google.protobuf.Value" => {
            let field = match value {
                Json::Null => "null_value",
                Json::Boolean(_) => "bool_value",
                Json::Number(_) => "number_value",
                Json::Text(_) => "string_value",
                Json::Array(_) => "list_value",
                Json::Object(_) => "struct_value",
            };
            put(&mut made, field, value, depth)?;
        }
        _ => {
            for (name, value) in members(value)? {
                let field = kind.get_field_by_json_name(name).or_else(|| kind.get_field_by_name(name));
                let field = field
                    .ok_or_else(|| Misfit::new(format!("`{}` has no such field", kind.full_name())).within(name))?;
                if matches!(value, Json::Null) && !is_null_a_value(&field) {
                    continue;
                }
                if let Some(taken) = field.containing_oneof().and_then(|one| one.fields().find(|f| made.has_field(f))) {
                    let message = format!("`{}` is given already, and only one of them may be", taken.name());
                    return Err(Misfit::new(message).within(name));
                }
                set(&mut made, &field, value, depth).map_err(|misfit| misfit.within(name))?;
            }
        }
    }
    Ok(made)
}

/// A value of JSON may be null itself; any other field is absent then.
fn is_null_a_value(field: &FieldDescriptor) -> bool {
    !field.is_list() && matches!(field.kind(), Kind::Message(message) if message.full_name() == "google.protobuf.Value")
}

fn seconds(made: &mut DynamicMessage, seconds: i128, nanos: i128) -> Result<(), Misfit> {
    let range = |_| Misfit::new("it is out of range");
    for (name, value) in [
        ("seconds", Proto::I64(i64::try_from(seconds).map_err(range)?)),
        ("nanos", Proto::I32(i32::try_from(nanos).map_err(range)?)),
    ] {
        made.try_set_field_by_name(name, value).map_err(|error| Misfit::new(error.to_string()))?;
    }
    Ok(())
}

fn put(made: &mut DynamicMessage, name: &str, value: &Json, depth: usize) -> Result<(), Misfit> {
    let field = made.descriptor().get_field_by_name(name);
    set(made, &field.ok_or_else(|| Misfit::new(format!("its message has no `{name}`")))?, value, depth)
}

fn set(made: &mut DynamicMessage, field: &FieldDescriptor, value: &Json, depth: usize) -> Result<(), Misfit> {
    let value = if field.is_map() {
        map(field, value, depth)?
    } else if field.is_list() {
        let elements = elements(value)?.iter().enumerate();
        Proto::List(elements.map(|(n, v)| one(&field.kind(), v, depth).map_err(|e| e.at(n))).collect::<Result<_, _>>()?)
    } else {
        one(&field.kind(), value, depth)?
    };
    made.try_set_field(field, value).map_err(|error| Misfit::new(error.to_string()))
}

fn map(field: &FieldDescriptor, value: &Json, depth: usize) -> Result<Proto, Misfit> {
    let Kind::Message(entry) = field.kind() else { return Err(Misfit::new("its map has no entries")) };
    let mut map = HashMap::new();
    for (name, value) in members(value)? {
        let text = Json::Text(name.clone());
        let key = match entry.map_entry_key_field().kind() {
            Kind::Bool if name == "true" => Ok(MapKey::Bool(true)),
            Kind::Bool if name == "false" => Ok(MapKey::Bool(false)),
            Kind::Bool => Err(Misfit::new("a key is true or false")),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => ranged(&text).map(MapKey::I32),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => ranged(&text).map(MapKey::I64),
            Kind::Uint32 | Kind::Fixed32 => ranged(&text).map(MapKey::U32),
            Kind::Uint64 | Kind::Fixed64 => ranged(&text).map(MapKey::U64),
            _ => Ok(MapKey::String(name.clone())),
        };
        let value = key.and_then(|key| Ok((key, one(&entry.map_entry_value_field().kind(), value, depth)?)));
        let (key, value) = value.map_err(|misfit| misfit.within(name))?;
        map.insert(key, value);
    }
    Ok(Proto::Map(map))
}

fn one(kind: &Kind, value: &Json, depth: usize) -> Result<Proto, Misfit> {
    Ok(match kind {
        Kind::Double => Proto::F64(float(value)?),
        Kind::Float => Proto::F32(single(value)?),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Proto::I32(ranged(value)?),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Proto::I64(ranged(value)?),
        Kind::Uint32 | Kind::Fixed32 => Proto::U32(ranged(value)?),
        Kind::Uint64 | Kind::Fixed64 => Proto::U64(ranged(value)?),
        Kind::Bool => Proto::Bool(boolean(value)?),
        Kind::String => Proto::String(text(value)?.to_owned()),
        Kind::Bytes => Proto::Bytes(bytes(value)?.into()),
        Kind::Enum(known) => Proto::EnumNumber(match value {
            Json::Null if known.full_name() == "google.protobuf.NullValue" => 0,
            Json::Text(name) => {
                let found = known.get_value_by_name(name);
                found.ok_or_else(|| Misfit::new(format!("`{}` has no such value", known.full_name())))?.number()
            }
            value => ranged(value)?,
        }),
        Kind::Message(inner) => Proto::Message(message(inner, value, depth)?),
    })
}
