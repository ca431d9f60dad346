//! The allocator of every program that decodes or encodes columns, and how much freed memory it may sit on.
//!
//! Columns and pages are large, short-lived buffers: mimalloc keeps their memory, where the system's allocator would have
//! the kernel clear new pages for each. By default it keeps all that was freed in the last second or more. A fold with a
//! budget of 256 MiB that holds 150 MiB of rows came to 260 to 400 MiB that way, to about 200 with this, at 1 % to 3 % of its time.
//!
//! The only unsafe code of the workspace: the option has no other way in.

use std::sync::Once;

use libmimalloc_sys::{mi_option_get, mi_option_set, mi_option_t};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of mimalloc's `mimalloc.h`, in milliseconds: the crate does not name it.
const PURGE_DELAY: mi_option_t = 15;
/// Ten times as long for memory that no thread has a part in.
const PURGE_DELAY_MS: core::ffi::c_long = 1;
/// What stands there in the version that this was written for.
const PURGE_DELAY_DEFAULT_MS: core::ffi::c_long = 1000;

/// Makes the allocator give freed memory back soon. To be called at the start of a program; later calls do nothing. Where
/// `MIMALLOC_PURGE_DELAY` says otherwise, that holds.
pub fn give_back_soon() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        #[expect(unsafe_code, reason = "see the crate's documentation")]
        // SAFETY: both take any number: one that is no option reads as 0 and sets nothing. They are not to race with each
        // other, which `Once` sees to; nobody else here calls them. The value read tells whether the number means what it
        // meant.
        unsafe {
            if mi_option_get(PURGE_DELAY) == PURGE_DELAY_DEFAULT_MS {
                mi_option_set(PURGE_DELAY, PURGE_DELAY_MS);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another version of mimalloc may number its options anew.
    #[test]
    fn the_option_is_the_one_that_is_meant() {
        #[expect(unsafe_code, reason = "as above")]
        // SAFETY: as above.
        let get = || unsafe { mi_option_get(PURGE_DELAY) };
        // Unless the environment says otherwise, which would be a strange place to run tests in.
        assert_eq!(get(), PURGE_DELAY_DEFAULT_MS);
        give_back_soon();
        assert_eq!(get(), PURGE_DELAY_MS);
    }
}
