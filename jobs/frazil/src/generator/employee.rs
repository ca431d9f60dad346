//! One Employee record and its protobuf bytes, written by hand: the generator must not be what a benchmark measures.

use model::clock::Timestamp;
use serde_json::{Value, json};

/// Every record's address.
pub(super) const ADDRESS: &str = "Melbourne, Australia";
/// Every record's team.
pub(super) const TEAM: &str = "Solutions Architects";
/// Where the team is.
pub(super) const LOCATION: &str = "Australia";
/// Every record's role, as its enum spells it; its number is 2.
pub(super) const ROLE: &str = "ARCHITECT";

/// Ids are drawn below this.
const ID_LIMIT: u64 = 100_000;
/// Names are `Dummy0` to `Dummy99`.
pub(super) const NAMES: u64 = 100;
/// Ages are 0 to 98.
const AGE_LIMIT: u64 = 99;

/// The fields that vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Employee {
    /// 0 to 99,999
    pub(super) id: u32,
    /// The number in `Dummy…`
    pub(super) name: u8,
    /// 0 to 98
    pub(super) age: u8,
    /// Milliseconds since the epoch.
    pub(super) start_ms: i64,
}

impl Employee {
    /// From 64 random bits and the time the record is sent at.
    pub(super) fn drawn(bits: u64, sent_ms: i64) -> Self {
        // Each product is shifted below its limit, so the narrowing below loses nothing.
        let id = ((bits & 0xffff_ffff) * ID_LIMIT) >> 32;
        let name = ((bits >> 32 & 0xffff) * NAMES) >> 16;
        let age = ((bits >> 48 & 0xfff) * AGE_LIMIT) >> 12;
        // An event happens a little before it is sent.
        let before = (bits >> 60) as i64;
        Self { id: id as u32, name: name as u8, age: age as u8, start_ms: sent_ms - before }
    }

    /// Appends the bytes of `gsr.proto.post.Employee`, as any proto3 writer makes them: fields in order of number, an
    /// implicit scalar of zero left out.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        if self.id != 0 {
            out.push(0x08);
            varint(u64::from(self.id), out);
        }
        self.encode_name(out);
        self.encode_rest(out);
    }

    pub(super) fn encode_name(&self, out: &mut Vec<u8>) {
        let name = self.name;
        out.push(0x12);
        out.push(if name < 10 { 6 } else { 7 });
        out.extend_from_slice(b"Dummy");
        if name >= 10 {
            out.push(b'0' + name / 10 % 10);
        }
        out.push(b'0' + name % 10);
    }

    /// Everything after the name.
    pub(super) fn encode_rest(&self, out: &mut Vec<u8>) {
        text(0x1a, ADDRESS, out);
        if self.age == 0 {
            // A wrapper that is there and holds zero.
            out.extend_from_slice(&[0x22, 0]);
        } else {
            out.extend_from_slice(&[0x22, 2, 0x08, self.age]);
        }
        out.extend_from_slice(&[0x2a, 0]);
        let start = out.len();
        out.push(0x08);
        varint(u64::try_from(self.start_ms.div_euclid(1000)).unwrap_or(0), out);
        let nanos = u64::try_from(self.start_ms.rem_euclid(1000)).unwrap_or(0) * 1_000_000;
        if nanos != 0 {
            out.push(0x10);
            varint(nanos, out);
        }
        let length = out.len() - start;
        if let (Some(at), Ok(length)) = (out.get_mut(start - 1), u8::try_from(length)) {
            // At most 1 + 10 + 1 + 5 bytes: one byte of length is enough.
            *at = length;
        }
        out.push(0x32);
        out.push(short(4 + TEAM.len() + LOCATION.len()));
        text(0x0a, TEAM, out);
        text(0x12, LOCATION, out);
        out.extend_from_slice(&[0x38, 2]);
    }
}

impl Employee {
    /// The same by names, for other formats.
    pub(super) fn json(&self) -> Value {
        json!({
            "id": self.id,
            "name": format!("Dummy{}", self.name),
            "address": ADDRESS,
            "employee_age": self.age,
            "start_date": Timestamp::from_millis(self.start_ms).to_string(),
            "team": {"name": TEAM, "location": LOCATION},
            "role": ROLE,
        })
    }
}

/// A length below 128, as one byte.
const fn short(length: usize) -> u8 {
    assert!(length < 128);
    length as u8
}

fn text(tag: u8, text: &str, out: &mut Vec<u8>) {
    out.push(tag);
    out.push(short(text.len()));
    out.extend_from_slice(text.as_bytes());
}

/// Appends a base-128 varint.
fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
