//! From a body's bytes to an index over its records.

use std::borrow::Cow;
use std::collections::HashMap;

use super::json::Scan;
use super::members::{other_topic, text, timestamp_type, whole};
use super::{
    BODY_BYTES_MAX, Entry, Error, Event, EventSource, HeaderEntry, List, RECORDS_MAX, Record, SchemaMetadata, Span,
};

/// Reads events into buffers that it keeps: one event at a time, many events one after the other.
#[derive(Debug)]
pub struct Reader {
    /// Keys, values and header values of the event, decoded.
    pub(super) bytes: Vec<u8>,
    /// Header names.
    pub(super) text: String,
    pub(super) entries: Vec<Entry>,
    pub(super) headers: Vec<HeaderEntry>,
    pub(super) schemas: Vec<SchemaMetadata>,
    pub(super) lists: Vec<List>,
    pub(super) arn: Option<String>,
    follow: [Member; MEMBERS],
}

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

/// The members of a record that mean something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Topic,
    Partition,
    Offset,
    Timestamp,
    TimestampType,
    Key,
    Value,
    Headers,
    KeySchema,
    ValueSchema,
    Other,
}

const MEMBERS: usize = Member::Other as usize + 1;

impl Member {
    fn named(name: &str) -> Self {
        match name {
            "topic" => Self::Topic,
            "partition" => Self::Partition,
            "offset" => Self::Offset,
            "timestamp" => Self::Timestamp,
            "timestampType" => Self::TimestampType,
            "key" => Self::Key,
            "value" => Self::Value,
            "headers" => Self::Headers,
            "keySchemaMetadata" => Self::KeySchema,
            "valueSchemaMetadata" => Self::ValueSchema,
            _ => Self::Other,
        }
    }

    /// How many bytes the member's name and colon take when the rest starts with them in their plainest spelling.
    #[inline]
    fn plain(self, rest: &[u8]) -> Option<usize> {
        macro_rules! starts {
            ($text:literal) => {
                rest.starts_with($text).then_some($text.len())
            };
        }
        match self {
            Self::Topic => starts!(b"\"topic\":"),
            Self::Partition => starts!(b"\"partition\":"),
            Self::Offset => starts!(b"\"offset\":"),
            Self::Timestamp => starts!(b"\"timestamp\":"),
            Self::TimestampType => starts!(b"\"timestampType\":"),
            Self::Key => starts!(b"\"key\":"),
            Self::Value => starts!(b"\"value\":"),
            Self::Headers => starts!(b"\"headers\":"),
            Self::KeySchema => starts!(b"\"keySchemaMetadata\":"),
            Self::ValueSchema => starts!(b"\"valueSchemaMetadata\":"),
            Self::Other => None,
        }
    }
}

/// Text from the event for a message: never more than a person wants to read.
fn quoted(text: &str) -> String {
    const CHARS_MAX: usize = 80;
    let mut short: String = text.chars().take(CHARS_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("`{short}`")
}

pub(super) const fn malformed(at: usize, fault: &'static str) -> Error {
    Error::Malformed { at, fault: Cow::Borrowed(fault) }
}

/// The topic and partition of a list's name, `<topic>-<partition>`.
fn split_name(name: &str) -> Option<(&str, i32)> {
    let (topic, digits) = name.rsplit_once('-')?;
    let partition: i32 = digits.parse().ok()?;
    // One spelling only (no `+1`, no `01`): otherwise two lists could be the same partition.
    let canonical = digits.bytes().all(|b| b.is_ascii_digit()) && (digits.len() == 1 || !digits.starts_with('0'));
    (canonical && !topic.is_empty()).then_some((topic, partition))
}

impl Reader {
    /// A reader with empty buffers.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            bytes: Vec::new(),
            text: String::new(),
            entries: Vec::new(),
            headers: Vec::new(),
            schemas: Vec::new(),
            lists: Vec::new(),
            arn: None,
            // The order of AWS's own samples, to begin with; it is learnt anew from what comes.
            follow: [
                Member::Partition,
                Member::Offset,
                Member::Timestamp,
                Member::TimestampType,
                Member::Key,
                Member::Value,
                Member::Headers,
                Member::KeySchema,
                Member::ValueSchema,
                Member::Topic,
                Member::Topic,
            ],
        }
    }

    /// Reads an event. What was read before is forgotten.
    ///
    /// # Errors
    /// [`Error`]; then no record of the event can be had.
    pub fn read(&mut self, body: &[u8]) -> Result<Event<'_>, Error> {
        self.clear();
        if body.len() > BODY_BYTES_MAX {
            return Err(Error::TooLarge { bytes: body.len(), max: BODY_BYTES_MAX });
        }
        // Base64 shrinks to three quarters and header bytes to less: one reservation, and no growing while reading.
        self.bytes.reserve(body.len() / 4 * 3 + 4);
        match self.event(&mut Scan::new(body)) {
            Ok(source) => Ok(Event { reader: self, source }),
            Err(e) => {
                self.clear();
                Err(e)
            }
        }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.text.clear();
        self.schemas.clear();
        self.arn = None;
        self.clear_records();
    }

    fn clear_records(&mut self) {
        self.entries.clear();
        self.headers.clear();
        self.lists.clear();
    }

    fn event(&mut self, scan: &mut Scan<'_>) -> Result<EventSource, Error> {
        if scan.token("an event")? != b'{' {
            scan.skip()?;
            return Err(Error::NotKafka { found: "it is not a JSON object".to_owned() });
        }
        scan.advance(1);
        let mut source: Option<String> = None;
        let mut first_name: Option<String> = None;
        // Another kind of event may have `records` of its own; which kind it is must be known before they are judged.
        let mut misshapen: Option<Error> = None;
        let mut present = false;
        let mut more = !scan.eat(b'}', "a member's name")?;
        while more {
            let name = scan.name()?;
            match name.as_ref() {
                "eventSource" => source = text(scan)?,
                "eventSourceArn" => self.arn = text(scan)?.filter(|arn| !arn.is_empty()),
                "records" => {
                    self.clear_records();
                    misshapen = None;
                    present = !scan.null()?;
                    if present {
                        let start = scan.at();
                        match self.records(scan) {
                            Ok(()) => {}
                            Err(fault @ Error::Malformed { .. }) => {
                                scan.back_to(start);
                                scan.skip()?;
                                misshapen = Some(fault);
                            }
                            Err(other) => return Err(other),
                        }
                    }
                }
                _ => scan.skip()?,
            }
            first_name.get_or_insert_with(|| name.into_owned());
            more = scan.more(b'}')?;
        }
        scan.end()?;
        let source = match source.as_deref() {
            Some("aws:kafka") => EventSource::Msk,
            Some("SelfManagedKafka") => EventSource::SelfManaged,
            Some(other) => return Err(Error::NotKafka { found: format!("its `eventSource` is {}", quoted(other)) }),
            None => {
                let found = match first_name {
                    Some(name) => format!("it has no `eventSource`, and its first member is {}", quoted(&name)),
                    None => "it is an empty object".to_owned(),
                };
                return Err(Error::NotKafka { found });
            }
        };
        // An event that says nothing of its records must not be acknowledged as if it had none.
        let absent = (!present).then(|| malformed(scan.at(), "it has no `records`"));
        misshapen.or(absent).map_or(Ok(source), Err)
    }

    /// The map from `<topic>-<partition>` to that partition's records.
    fn records(&mut self, scan: &mut Scan<'_>) -> Result<(), Error> {
        if scan.token("the records")? != b'{' {
            return Err(malformed(scan.at(), "`records` must be an object"));
        }
        scan.advance(1);
        // Position of each partition's list, so that of a repeated name the last one counts.
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut more = !scan.eat(b'}', "a partition's name")?;
        while more {
            scan.space();
            let at = scan.at();
            let name = scan.name()?;
            let Some((topic, partition)) = split_name(&name) else {
                return Err(Error::Malformed {
                    at,
                    fault: Cow::Owned(format!("{} is not a topic, a hyphen and a partition", quoted(&name))),
                });
            };
            let mut list = List { topic: topic.to_owned(), partition, records: Span::default(), duplicates: 0 };
            if !scan.null()? {
                if scan.token("a list of records")? != b'[' {
                    return Err(malformed(scan.at(), "a partition's records must be an array"));
                }
                self.list(scan, &mut list)?;
            }
            match places.get(name.as_ref()).and_then(|&place| self.lists.get_mut(place)) {
                Some(earlier) => *earlier = list,
                None => {
                    places.insert(name.into_owned(), self.lists.len());
                    self.lists.push(list);
                }
            }
            more = scan.more(b'}')?;
        }
        Ok(())
    }

    fn list(&mut self, scan: &mut Scan<'_>, list: &mut List) -> Result<(), Error> {
        scan.advance(1);
        let start = self.entries.len();
        let mut rising = true;
        let mut before = -1;
        let mut more = !scan.eat(b']', "a record")?;
        while more {
            if self.entries.len() == RECORDS_MAX {
                return Err(malformed(scan.at(), "an event has at most 1048576 records"));
            }
            let entry = self.record(scan, list)?;
            rising &= before < entry.offset;
            before = entry.offset;
            self.entries.push(entry);
            more = scan.more(b']')?;
        }
        list.records = Span::between(start, self.entries.len());
        if !rising {
            list.duplicates = self.drop_repeated(list)?;
            list.records = Span::between(start, self.entries.len());
        }
        Ok(())
    }

    /// Leaves out the records whose coordinate came before in this list, the last one read; says how many those were.
    fn drop_repeated(&mut self, list: &List) -> Result<u64, Error> {
        let all = list.records.of(&self.entries);
        let mut kept: Vec<Entry> = Vec::with_capacity(all.len());
        let mut places: HashMap<i64, usize> = HashMap::with_capacity(all.len());
        for entry in all {
            match places.get(&entry.offset).and_then(|&place| kept.get(place)) {
                None => {
                    places.insert(entry.offset, kept.len());
                    kept.push(*entry);
                }
                Some(earlier) => {
                    let record = |entry| Record { reader: self, list, entry };
                    if !record(earlier).same_contents(&record(entry)) {
                        return Err(Error::Contradiction {
                            topic: list.topic.clone(),
                            partition: list.partition,
                            offset: entry.offset,
                        });
                    }
                }
            }
        }
        let dropped = all.len() - kept.len();
        self.entries.truncate(list.records.start as usize);
        self.entries.append(&mut kept);
        Ok(dropped as u64)
    }

    /// One record. What it says of topic and partition must be what its list says.
    fn record(&mut self, scan: &mut Scan<'_>, list: &List) -> Result<Entry, Error> {
        if scan.token("a record")? != b'{' {
            return Err(malformed(scan.at(), "a record must be an object"));
        }
        let start = scan.at();
        scan.advance(1);
        let mut offset: Option<i64> = None;
        let mut entry = Entry {
            offset: 0,
            timestamp_ms: None,
            timestamp_type: None,
            key: None,
            value: None,
            headers: Span::default(),
            key_schema: None,
            value_schema: None,
        };
        // Where the record named another topic or partition; of a repeated member only the last one counts.
        let (mut wrong_topic, mut wrong_partition) = (None, None);
        let mut before = Member::Other;
        let mut more = !scan.eat(b'}', "a member's name")?;
        while more {
            let member = self.member(scan, before)?;
            before = member;
            match member {
                Member::Topic => wrong_topic = other_topic(scan, list)?,
                Member::Partition => {
                    scan.space();
                    let at = scan.at();
                    wrong_partition = match whole(scan)? {
                        Some(found) if found != i64::from(list.partition) => Some((at, found)),
                        _ => None,
                    };
                }
                Member::Offset => {
                    scan.space();
                    let at = scan.at();
                    offset = whole(scan)?;
                    if offset.is_some_and(|o| o < 0) {
                        return Err(malformed(at, "an offset is at least 0"));
                    }
                }
                Member::Timestamp => entry.timestamp_ms = whole(scan)?.filter(|&ms| ms != -1),
                Member::TimestampType => entry.timestamp_type = timestamp_type(scan)?,
                Member::Key => entry.key = self.base64(scan)?,
                Member::Value => entry.value = self.base64(scan)?,
                Member::Headers => entry.headers = self.header_list(scan)?,
                Member::KeySchema => entry.key_schema = self.schema(scan)?,
                Member::ValueSchema => entry.value_schema = self.schema(scan)?,
                Member::Other => scan.skip()?,
            }
            more = scan.more(b'}')?;
        }
        let here = || format!("but stands in the list of {}", quoted(&format!("{}-{}", list.topic, list.partition)));
        if let Some((at, found)) = wrong_topic {
            let fault = Cow::Owned(format!("the record's topic is {}, {}", quoted(&found), here()));
            return Err(Error::Malformed { at, fault });
        }
        if let Some((at, found)) = wrong_partition {
            let fault = Cow::Owned(format!("the record's partition is {found}, {}", here()));
            return Err(Error::Malformed { at, fault });
        }
        entry.offset = offset.ok_or_else(|| malformed(start, "this record has no offset"))?;
        Ok(entry)
    }

    /// A member's name and colon. Records of one event look alike, so the member that followed last time is tried first.
    #[inline]
    fn member(&mut self, scan: &mut Scan<'_>, before: Member) -> Result<Member, Error> {
        scan.space();
        let guess = self.follow.get(before as usize).copied().unwrap_or(Member::Other);
        if let Some(bytes) = guess.plain(scan.rest()) {
            scan.advance(bytes);
            return Ok(guess);
        }
        let member = Member::named(&scan.name()?);
        if let Some(next) = self.follow.get_mut(before as usize) {
            *next = member;
        }
        Ok(member)
    }
}
