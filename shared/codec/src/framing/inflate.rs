//! zlib (RFC 1950), of one piece: every byte of it is accounted for, and no more comes out than is allowed.

use flate2::{Decompress, FlushDecompress, Status};

use super::bad;
use crate::{Class, Rejected};

/// What the buffer begins with and grows by at least.
const STEP: usize = 4096;

/// Deflate with a window of at most 32 KiB: the low half of the first byte.
const DEFLATE: u8 = 8;
const WINDOW_MAX: u8 = 7;
/// The bit of the second byte that asks for a dictionary.
const DICTIONARY: u8 = 0x20;

/// A decompressor and the buffer that it writes to, kept from one payload to the next.
#[derive(Debug)]
pub(super) struct Inflater {
    // Without zlib's own header and checksum: they are judged here, so that each fault has its class.
    stream: Decompress,
    buffer: Vec<u8>,
}

impl Default for Inflater {
    fn default() -> Self {
        Self { stream: Decompress::new(false), buffer: Vec::new() }
    }
}

impl Inflater {
    pub(super) fn inflate(&mut self, zlib: &[u8], bytes_max: usize) -> Result<&[u8], Rejected> {
        let ends_early = || rejected(Class::Truncated, "the compressed payload ends early");
        let (&[method, flags], deflated) = zlib.split_first_chunk().ok_or_else(ends_early)?;
        if method & 0x0F != DEFLATE || method >> 4 > WINDOW_MAX || u16::from_be_bytes([method, flags]) % 31 != 0 {
            return Err(bad(format!("the compressed payload is not zlib's: it begins with {method:02x} {flags:02x}")));
        }
        if flags & DICTIONARY != 0 {
            return Err(bad("the compressed payload asks for a dictionary".to_owned()));
        }
        let after = self.fill(deflated, bytes_max)?;
        let (checksum, after) = after.split_first_chunk().ok_or_else(ends_early)?;
        if u32::from_be_bytes(*checksum) != simd_adler32::adler32(&self.buffer.as_slice()) {
            return Err(rejected(Class::BadChecksum, "the compressed payload's checksum does not match"));
        }
        if !after.is_empty() {
            let message = format!("{} bytes are left over after the compressed payload", after.len());
            return Err(rejected(Class::TrailingBytes, &message));
        }
        Ok(&self.buffer)
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Fills the buffer, and returns what follows the deflated data.
    fn fill<'a>(&mut self, mut deflated: &'a [u8], bytes_max: usize) -> Result<&'a [u8], Rejected> {
        self.stream.reset(false);
        self.buffer.clear();
        loop {
            let held = self.buffer.len();
            if held == self.buffer.capacity() {
                // One byte more than is allowed tells what ends at the bound from what goes beyond it.
                let room = bytes_max.saturating_add(1).saturating_sub(held);
                self.buffer.reserve_exact(held.max(STEP).min(room).max(1));
            }
            let taken_before = self.stream.total_in();
            let status = self.stream.decompress_vec(deflated, &mut self.buffer, FlushDecompress::Finish);
            let taken = usize::try_from(self.stream.total_in() - taken_before).unwrap_or(usize::MAX);
            deflated = deflated.get(taken..).unwrap_or(&[]);
            if self.buffer.len() > bytes_max {
                let message = format!("the payload inflates to more than {bytes_max} bytes");
                return Err(rejected(Class::TooLarge, &message));
            }
            match status {
                Ok(Status::StreamEnd) => return Ok(deflated),
                // There was room, so that it is the input that was wanting.
                Ok(_) if taken == 0 && self.buffer.len() == held => {
                    return Err(rejected(Class::Truncated, "the compressed payload ends early"));
                }
                Ok(_) => {}
                Err(_) => return Err(bad("the compressed payload is damaged".to_owned())),
            }
        }
    }
}

fn rejected(class: Class, message: &str) -> Rejected {
    Rejected { class, path: String::new(), message: message.to_owned() }
}
