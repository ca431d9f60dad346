//! The seal between an object's pages and its metadata. Its form is described in [`super`].

use xxhash_rust::xxh3::xxh3_64;

/// How long a seal is.
pub(super) const BYTES: usize = 24;
const MAGIC: [u8; 8] = *b"frazil/1";

/// Digests of what stands before and after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seal {
    before: u64,
    after: u64,
}

impl Seal {
    pub(super) fn of(before: &[u8], after: &[u8]) -> Self {
        Self { before: xxh3_64(before), after: xxh3_64(after) }
    }

    /// `None` when it is no seal.
    pub(super) fn read(bytes: &[u8; BYTES]) -> Option<Self> {
        let (magic, digests) = bytes.split_first_chunk::<8>()?;
        let (before, after) = digests.split_first_chunk::<8>()?;
        let after = after.first_chunk::<8>()?;
        (*magic == MAGIC).then(|| Self { before: u64::from_le_bytes(*before), after: u64::from_le_bytes(*after) })
    }

    pub(super) fn bytes(self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        let parts = MAGIC.into_iter().chain(self.before.to_le_bytes()).chain(self.after.to_le_bytes());
        out.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
        out
    }

    pub(super) fn holds_before(self, bytes: &[u8]) -> bool {
        xxh3_64(bytes) == self.before
    }

    pub(super) fn holds_after(self, bytes: &[u8]) -> bool {
        xxh3_64(bytes) == self.after
    }
}
