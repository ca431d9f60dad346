use std::fmt::Write as _;

/// A whole number's decimal digits, without allocating.
pub(crate) struct Digits {
    bytes: [u8; 20],
    length: usize,
}

impl Digits {
    pub(crate) fn of(number: impl std::fmt::Display) -> Self {
        let mut digits = Self { bytes: [0; 20], length: 0 };
        // 64 bits are at most 20 characters, sign included.
        let _infallible = write!(digits, "{number}");
        digits
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&[])
    }
}

impl std::fmt::Write for Digits {
    fn write_str(&mut self, part: &str) -> std::fmt::Result {
        let end = self.length + part.len();
        self.bytes.get_mut(self.length..end).ok_or(std::fmt::Error)?.copy_from_slice(part.as_bytes());
        self.length = end;
        Ok(())
    }
}
