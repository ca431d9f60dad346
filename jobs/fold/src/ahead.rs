//! Whole objects, read while those before them are worked on.

use std::iter::Peekable;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, FuturesOrdered, Stream, StreamExt};
use staging::object::{self, Object};
use staging::store::Store;

use crate::intake::Found;

/// Objects that are read at once: what a network answers meanwhile waits in its buffers.
const OBJECTS_MAX: usize = 8;
/// Bytes of objects that are read ahead, whatever memory there is.
const BYTES_MAX: u64 = 32 * 1024 * 1024;
/// The part of a run's memory that objects read ahead may take.
const MEMORY_PART: u64 = 16;

/// What was asked for, what came with it, and the object.
type Answer<'a, T> = (&'a Found, T, Result<Object, object::Error>);

/// How many bytes may be read ahead by a run of so much memory.
pub(crate) fn bytes_max(memory_bytes: u64) -> u64 {
    BYTES_MAX.min(memory_bytes / MEMORY_PART)
}

/// Reads objects in the order given, and hands each over with what came with it. The next ones are asked for before one is
/// handed over, as many as `bytes_max` allows and one at the least. Nothing is read any more once the stream is dropped.
pub(crate) fn read<'a, T: Send + 'a>(
    store: &'a dyn Store,
    wanted: impl Iterator<Item = (&'a Found, T)> + Send + 'a,
    bytes_max: u64,
) -> impl Stream<Item = Answer<'a, T>> + Send + 'a {
    let reading = Reading { store, wanted: wanted.peekable(), asked: FuturesOrdered::new(), bytes: 0, bytes_max };
    stream::unfold(reading, |mut reading| async move {
        reading.ask();
        let (found, with, object) = reading.asked.next().await?;
        reading.bytes = reading.bytes.saturating_sub(found.size);
        Some(((found, with, object), reading))
    })
}

struct Reading<'a, T, I: Iterator<Item = (&'a Found, T)>> {
    store: &'a dyn Store,
    wanted: Peekable<I>,
    asked: FuturesOrdered<BoxFuture<'a, Answer<'a, T>>>,
    /// Of those asked for.
    bytes: u64,
    bytes_max: u64,
}

impl<'a, T: Send + 'a, I: Iterator<Item = (&'a Found, T)>> Reading<'a, T, I> {
    fn ask(&mut self) {
        let Self { store, wanted, asked, bytes, bytes_max } = self;
        let store = *store;
        while asked.len() < OBJECTS_MAX {
            let room = bytes_max.saturating_sub(*bytes);
            let none = asked.is_empty();
            let Some((found, with)) = wanted.next_if(|(found, _)| none || found.size <= room) else { return };
            *bytes += found.size;
            asked.push_back(async move { (found, with, Object::read(store, &found.key).await) }.boxed());
        }
    }
}
