//! What the members of a record hold.

use std::borrow::Cow;

use base64_simd::{STANDARD, forgiving_decode_to_vec};
use memchr::memchr;

use super::json::Scan;
use super::read::{Reader, malformed};
use super::{Error, HEADER_MEMBERS_MAX, HeaderEntry, List, SchemaMetadata, Span, TimestampType};

impl Reader {
    /// A base64 text, decoded into the arena; `None` for null.
    #[inline]
    pub(super) fn base64(&mut self, scan: &mut Scan<'_>) -> Result<Option<Span>, Error> {
        if scan.token("a base64 text or null")? != b'"' {
            if scan.null()? {
                return Ok(None);
            }
            return Err(malformed(scan.at(), "a base64 text or null is expected"));
        }
        let start = self.bytes.len();
        let text = scan.rest().get(1..).unwrap_or_default();
        let Some(end) = memchr(b'"', text) else { return Err(scan.truncated("the end of a string")) };
        if STANDARD.decode_append(text.get(..end).unwrap_or_default(), &mut self.bytes).is_ok() {
            scan.advance(end + 2);
        } else {
            // JSON escapes stand in it (`\/` is a legal slash), its padding is missing, its last bits are not zero (as in
            // AWS's own sample), or it is wrong. The WHATWG's forgiving decoding tells these apart.
            let at = scan.at();
            let text = scan.string()?;
            let decoded = forgiving_decode_to_vec(text.as_bytes());
            self.bytes.extend(decoded.map_err(|_| malformed(at, "a text is not standard base64"))?);
        }
        Ok(Some(Span::between(start, self.bytes.len())))
    }

    /// `[{name: [byte, …] | null}, …]` or null.
    #[inline]
    pub(super) fn header_list(&mut self, scan: &mut Scan<'_>) -> Result<Span, Error> {
        let start = self.headers.len();
        if scan.null()? {
            return Ok(Span::default());
        }
        if scan.token("headers")? != b'[' {
            return Err(malformed(scan.at(), "headers must be an array or null"));
        }
        scan.advance(1);
        let mut more = !scan.eat(b']', "a header")?;
        while more {
            if scan.token("a header")? != b'{' {
                return Err(malformed(scan.at(), "a header must be an object"));
            }
            self.header(scan)?;
            more = scan.more(b']')?;
        }
        Ok(Span::between(start, self.headers.len()))
    }

    fn header(&mut self, scan: &mut Scan<'_>) -> Result<(), Error> {
        let at = scan.at();
        scan.advance(1);
        let first = self.headers.len();
        let mut more = !scan.eat(b'}', "a header's name")?;
        while more {
            let name = scan.name()?;
            let value = self.header_bytes(scan)?;
            let text = &self.text;
            let own = self.headers.get_mut(first..).unwrap_or_default();
            // Kafka repeats names from header to header. Inside one object a repeated name is JSON's matter: the last counts.
            if let Some(same) = own.iter_mut().find(|h| h.name.of_text(text) == name) {
                same.value = value;
            } else if own.len() == HEADER_MEMBERS_MAX {
                return Err(malformed(at, "a header object has more than 16 members"));
            } else {
                let start = self.text.len();
                self.text.push_str(&name);
                self.headers.push(HeaderEntry { name: Span::between(start, self.text.len()), value });
            }
            more = scan.more(b'}')?;
        }
        Ok(())
    }

    fn header_bytes(&mut self, scan: &mut Scan<'_>) -> Result<Option<Span>, Error> {
        if scan.null()? {
            return Ok(None);
        }
        if scan.token("a header's bytes")? != b'[' {
            return Err(malformed(scan.at(), "a header's value must be an array of bytes or null"));
        }
        scan.advance(1);
        let start = self.bytes.len();
        let mut more = !scan.eat(b']', "a byte")?;
        while more {
            scan.space();
            let at = scan.at();
            let number = scan.integer()?;
            let byte = match i16::try_from(number) {
                // Java's bytes are signed; their two's complement is the byte.
                Ok(n @ -128..=-1) => u8::try_from(n + 256),
                Ok(n) => u8::try_from(n),
                Err(e) => Err(e),
            };
            self.bytes.push(byte.map_err(|_| malformed(at, "a byte is a number from -128 to 255"))?);
            more = scan.more(b']')?;
        }
        Ok(Some(Span::between(start, self.bytes.len())))
    }

    /// `{dataFormat, schemaId}` or null. Neighbouring records share theirs.
    pub(super) fn schema(&mut self, scan: &mut Scan<'_>) -> Result<Option<u32>, Error> {
        if scan.null()? {
            return Ok(None);
        }
        if scan.token("schema metadata")? != b'{' {
            return Err(malformed(scan.at(), "schema metadata must be an object or null"));
        }
        scan.advance(1);
        let mut found = SchemaMetadata { data_format: None, schema_id: None };
        let mut more = !scan.eat(b'}', "a member's name")?;
        while more {
            match scan.name()?.as_ref() {
                "dataFormat" => found.data_format = text(scan)?,
                "schemaId" => {
                    // Documented as a string; a number can mean nothing else, and is kept as its digits.
                    found.schema_id = match scan.token("a schema id")? {
                        b'-' | b'0'..=b'9' => Some(scan.integer()?.to_string()),
                        _ => text(scan)?,
                    }
                }
                _ => scan.skip()?,
            }
            more = scan.more(b'}')?;
        }
        // Key and value may alternate between two; looking a few back finds either.
        let back = self.schemas.iter().rev().take(4).position(|known| *known == found);
        let place = match back {
            Some(back) => self.schemas.len() - 1 - back,
            None => {
                self.schemas.push(found);
                self.schemas.len() - 1
            }
        };
        Ok(u32::try_from(place).ok())
    }
}

/// A string or null.
pub(super) fn text(scan: &mut Scan<'_>) -> Result<Option<String>, Error> {
    if scan.null()? {
        return Ok(None);
    }
    if scan.token("a string")? != b'"' {
        return Err(malformed(scan.at(), "a string or null is expected"));
    }
    Ok(Some(scan.string()?.into_owned()))
}

/// A whole number or null.
#[inline]
pub(super) fn whole(scan: &mut Scan<'_>) -> Result<Option<i64>, Error> {
    if scan.null()? { Ok(None) } else { scan.integer().map(Some) }
}

/// The record's topic where it is not its list's, with its position. A null topic says nothing.
#[inline]
pub(super) fn other_topic<'b>(scan: &mut Scan<'b>, list: &List) -> Result<Option<(usize, Cow<'b, str>)>, Error> {
    if scan.null()? {
        return Ok(None);
    }
    let at = scan.at();
    let plain = scan.rest().strip_prefix(b"\"").and_then(|r| r.strip_prefix(list.topic.as_bytes()));
    // A topic that holds a quote or a backslash can't be matched this way by mistake: the text would go on.
    if plain.is_some_and(|r| r.first() == Some(&b'"')) && !list.topic.contains(['"', '\\']) {
        scan.advance(list.topic.len() + 2);
        return Ok(None);
    }
    if scan.token("a topic")? != b'"' {
        return Err(malformed(at, "a topic must be a string"));
    }
    let topic = scan.string()?;
    Ok((topic != list.topic.as_str()).then_some((at, topic)))
}

#[inline]
pub(super) fn timestamp_type(scan: &mut Scan<'_>) -> Result<Option<TimestampType>, Error> {
    scan.space();
    if scan.rest().starts_with(b"\"CREATE_TIME\"") {
        scan.advance(13);
        return Ok(Some(TimestampType::CreateTime));
    }
    Ok(match text(scan)?.as_deref() {
        Some("CREATE_TIME") => Some(TimestampType::CreateTime),
        Some("LOG_APPEND_TIME") => Some(TimestampType::LogAppendTime),
        _ => None,
    })
}
