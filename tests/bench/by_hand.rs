//! A decoder for the one message of the benchmark and for nothing else: what decoding can cost at the least.

/// The columns of `gsr.proto.post.Employee`, as plain buffers.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    ids: Vec<i64>,
    ages: Vec<i32>,
    has_age: Vec<bool>,
    starts: Vec<i64>,
    roles: Vec<u8>,
    texts: [Vec<u8>; 3],
    ends: [Vec<i32>; 3],
}

const NAME: usize = 0;
const ADDRESS: usize = 1;
const TEAM: usize = 2;

impl Rows {
    pub(crate) fn clear(&mut self) {
        self.ids.clear();
        self.ages.clear();
        self.has_age.clear();
        self.starts.clear();
        self.roles.clear();
        self.texts.iter_mut().for_each(Vec::clear);
        self.ends.iter_mut().for_each(Vec::clear);
    }

    /// One record; nothing when it is not what it should be.
    pub(crate) fn decode(&mut self, mut bytes: &[u8]) -> Option<()> {
        let (mut id, mut age, mut seconds, mut nanos, mut role) = (0, None, 0, 0, 0);
        let before: [usize; 3] = std::array::from_fn(|n| self.texts[n].len());
        while !bytes.is_empty() {
            match varint(&mut bytes)? {
                0x08 => id = varint(&mut bytes)? as i64,
                0x12 => self.text(NAME, before[NAME], &mut bytes)?,
                0x1a => self.text(ADDRESS, before[ADDRESS], &mut bytes)?,
                0x22 => {
                    let mut inner = slice(&mut bytes)?;
                    age = Some(0);
                    while !inner.is_empty() {
                        match varint(&mut inner)? {
                            0x08 => age = Some(varint(&mut inner)? as i32),
                            _ => return None,
                        }
                    }
                }
                0x2a => {
                    let mut inner = slice(&mut bytes)?;
                    while !inner.is_empty() {
                        match varint(&mut inner)? {
                            0x08 => seconds = varint(&mut inner)? as i64,
                            0x10 => nanos = varint(&mut inner)? as i64,
                            _ => return None,
                        }
                    }
                }
                0x32 => {
                    let mut inner = slice(&mut bytes)?;
                    while !inner.is_empty() {
                        match varint(&mut inner)? {
                            0x0a => self.text(TEAM, before[TEAM], &mut inner)?,
                            0x12 => drop(slice(&mut inner)?),
                            _ => return None,
                        }
                    }
                }
                0x38 => role = varint(&mut bytes)? as u8,
                _ => return None,
            }
        }
        self.ids.push(id);
        self.ages.push(age.unwrap_or(0));
        self.has_age.push(age.is_some());
        self.starts.push(seconds * 1_000_000 + nanos / 1000);
        self.roles.push(role);
        for (ends, texts) in self.ends.iter_mut().zip(&self.texts) {
            ends.push(texts.len() as i32);
        }
        Some(())
    }

    fn text(&mut self, column: usize, before: usize, bytes: &mut &[u8]) -> Option<()> {
        let text = slice(bytes)?;
        std::str::from_utf8(text).ok()?;
        self.texts[column].truncate(before);
        self.texts[column].extend_from_slice(text);
        Some(())
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (n, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * n);
        if byte & 0x80 == 0 {
            *bytes = &bytes[n + 1..];
            return Some(value);
        }
    }
    None
}

fn slice<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(varint(bytes)?).ok()?;
    let (slice, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(slice)
}
