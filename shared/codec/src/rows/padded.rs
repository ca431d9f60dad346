/// Payloads up to this size are copied to a buffer with room behind it, which lets every short read be one of a whole
/// word; the copy costs a few nanoseconds. Larger ones are read where they are.
const COPIED_MAX: usize = 4096;

/// Room behind a copied payload: the longest read of a whole block.
const ROOM: usize = 64;

/// Where short payloads are read.
pub(crate) struct Padded(Box<[u8; COPIED_MAX + ROOM]>);

impl Padded {
    pub(crate) fn new() -> Self {
        Self(Box::new([0; COPIED_MAX + ROOM]))
    }

    /// The payload's bytes; behind them there may be more that are not its own.
    #[inline(always)]
    pub(crate) fn hold<'a>(&'a mut self, payload: &'a [u8]) -> &'a [u8] {
        match self.0.get_mut(..payload.len()) {
            Some(copy) if payload.len() <= COPIED_MAX => {
                copy.copy_from_slice(payload);
                self.0.as_slice()
            }
            _ => payload,
        }
    }
}
