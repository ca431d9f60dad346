//! Numbers in groups of seven bits, the lowest first, as protobuf and Avro write them.

/// More than 64 bits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// The number at the beginning of eight bytes, and how many it takes; none where it takes more.
#[inline(always)]
pub(crate) const fn of(bytes: &[u8; 8]) -> Option<(u64, usize)> {
    let word = u64::from_le_bytes(*bytes);
    let stops = !word & 0x8080_8080_8080_8080;
    if stops == 0 {
        return None;
    }
    // Everything up to the first byte without a continuation bit, then the seven-bit groups moved together two, four and
    // eight at a time.
    let w = word & (stops ^ (stops - 1)) & 0x7f7f_7f7f_7f7f_7f7f;
    let w = (w & 0x007f_007f_007f_007f) | ((w & 0x7f00_7f00_7f00_7f00) >> 1);
    let w = (w & 0x0000_3fff_0000_3fff) | ((w & 0x3fff_0000_3fff_0000) >> 2);
    let w = (w & 0x0000_0000_0fff_ffff) | ((w & 0x0fff_ffff_0000_0000) >> 4);
    Some((w, (stops.trailing_zeros() as usize + 1) / 8))
}

/// The number at the beginning of bytes of any number, and how many it takes; none where they end before it does.
#[inline(never)]
pub(crate) fn bytewise(bytes: &[u8]) -> Option<Result<(u64, usize), TooLong>> {
    let mut value = 0_u64;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        // The tenth byte holds the last of 64 bits.
        if index == 9 && *byte > 1 {
            return Some(Err(TooLong));
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if *byte < 0x80 {
            return Some(Ok((value, index + 1)));
        }
    }
    None
}
