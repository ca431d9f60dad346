use super::text::BLOCK;

/// The names of an enum's numbers.
pub(crate) struct Names {
    /// All names, with a block of room behind the last.
    bytes: Vec<u8>,
    /// Position and length by number; length 0 where a small number has no name.
    small: Vec<(u32, u32)>,
    /// Number, position and length of the others, by number.
    large: Vec<(i32, u32, u32)>,
}

/// Numbers up to here are looked up by index.
const SMALL: i32 = 256;

impl Names {
    /// Of several names of one number, the first counts.
    pub(crate) fn new<'a>(values: impl Iterator<Item = (i32, &'a str)>) -> Self {
        let mut names = Self { bytes: Vec::new(), small: Vec::new(), large: Vec::new() };
        for (number, name) in values {
            // Bounded by the schema's own size, far below 4 GiB.
            let (at, length) = (names.bytes.len() as u32, name.len() as u32);
            let known = match usize::try_from(number) {
                Ok(index) if number < SMALL => {
                    if names.small.len() <= index {
                        names.small.resize(index + 1, (0, 0));
                    }
                    match names.small.get_mut(index) {
                        Some(cell) if cell.1 == 0 => {
                            *cell = (at, length);
                            false
                        }
                        _ => true,
                    }
                }
                _ => {
                    let known = names.large.iter().any(|(other, ..)| *other == number);
                    if !known {
                        names.large.push((number, at, length));
                    }
                    known
                }
            };
            if !known {
                names.bytes.extend_from_slice(name.as_bytes());
            }
        }
        names.large.sort_unstable();
        names.bytes.resize(names.bytes.len() + BLOCK, 0);
        names
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Position and length of a number's name.
    #[inline]
    pub(crate) fn find(&self, number: i32) -> Option<(usize, usize)> {
        let (at, length) = match usize::try_from(number).ok().and_then(|index| self.small.get(index)) {
            Some(&(at, length)) => (at, length),
            None => {
                let index = self.large.binary_search_by_key(&number, |(number, ..)| *number).ok()?;
                self.large.get(index).map(|&(_, at, length)| (at, length))?
            }
        };
        (length > 0).then_some((at as usize, length as usize))
    }
}
