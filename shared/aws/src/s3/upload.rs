//! Writing one file: one conditional put while it is small, a multipart upload once it is not.

use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use bytes::{Bytes, BytesMut};
use staging::store::{Error, Operation, Put};
use tokio::task::JoinSet;

use super::call::{Wire, once};
use super::storage::File;
use super::{fault, put, store};

/// Bytes of a part. S3 takes 5 MiB or more; larger ones cost memory and are lost whole when a line breaks.
const PART_BYTES: usize = 8 * 1024 * 1024;
/// S3's bound: 78 GiB of such parts, many times what a data file has.
const PARTS_MAX: i32 = 10_000;
/// Parts on their way at once. While they travel the writer goes on; memory is this many parts and the one being filled.
const IN_FLIGHT_MAX: usize = 3;
/// Times that a request is made whose answer gets lost. Each is looked up before the next.
const ATTEMPTS: u32 = 3;

/// Why a file was not written.
#[derive(Debug)]
pub(super) enum WriteError {
    /// Its name is taken.
    Taken,
    /// More parts than S3 takes.
    TooLarge,
    /// The store failed.
    Store(Error),
}

impl From<Error> for WriteError {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

/// A file being written.
pub(super) struct Upload {
    file: File,
    /// What no part holds yet: less than one part.
    rest: BytesMut,
    /// Bytes of all parts.
    sent: u64,
    parts: Option<Parts>,
}

/// A multipart upload under way.
struct Parts {
    id: String,
    started: i32,
    done: Vec<CompletedPart>,
    in_flight: JoinSet<Result<CompletedPart, Error>>,
}

impl Upload {
    pub(super) fn new(file: File) -> Self {
        Self { file, rest: BytesMut::new(), sent: 0, parts: None }
    }

    /// Takes bytes in, and sends a part for each that is full.
    pub(super) async fn write(&mut self, bytes: Bytes) -> Result<(), WriteError> {
        self.rest.extend_from_slice(&bytes);
        drop(bytes);
        while self.rest.len() > PART_BYTES {
            let part = self.rest.split_to(PART_BYTES).freeze();
            self.send(part).await?;
        }
        Ok(())
    }

    /// Makes the file appear.
    pub(super) async fn finish(&mut self) -> Result<(), WriteError> {
        let rest = std::mem::take(&mut self.rest).freeze();
        if self.parts.is_none() {
            return put_file(&self.file, rest).await;
        }
        self.send(rest).await?;
        let Some(parts) = &mut self.parts else { return Ok(()) };
        while let Some(part) = parts.in_flight.join_next().await {
            parts.done.push(part.map_err(|gone| lost_task(&self.file, gone))??);
        }
        parts.done.sort_by_key(CompletedPart::part_number);
        complete(&self.file, &parts.id, &parts.done, self.sent).await?;
        // Nothing is left to end.
        self.parts = None;
        Ok(())
    }

    /// Ends what was begun, so that parts nobody will use cost nothing. What can't be ended now, the bucket's rule for
    /// incomplete uploads ends.
    pub(super) async fn abort(mut self) {
        if let Some(parts) = self.parts.take() {
            parts.end(self.file.clone()).await;
        }
    }

    async fn send(&mut self, part: Bytes) -> Result<(), WriteError> {
        let parts = match &mut self.parts {
            Some(parts) => parts,
            none => none.insert(Parts::begin(&self.file).await?),
        };
        if parts.started == PARTS_MAX {
            return Err(WriteError::TooLarge);
        }
        while parts.in_flight.len() >= IN_FLIGHT_MAX {
            let Some(done) = parts.in_flight.join_next().await else { break };
            parts.done.push(done.map_err(|gone| lost_task(&self.file, gone))??);
        }
        parts.started += 1;
        self.sent += part.len() as u64;
        parts.in_flight.spawn(send_part(self.file.clone(), parts.id.clone(), parts.started, part));
        Ok(())
    }
}

impl Drop for Upload {
    /// A writer that is dropped half way writes nothing. Dropping can't wait: a task ends the upload if the runtime lives
    /// that long. No answer depends on it.
    fn drop(&mut self) {
        if let (Some(parts), Ok(runtime)) = (self.parts.take(), tokio::runtime::Handle::try_current()) {
            drop(runtime.spawn(parts.end(self.file.clone())));
        }
    }
}

impl Parts {
    /// The SDK may repeat it: an upload whose id got lost is empty, and ended by the bucket's rule.
    async fn begin(file: &File) -> Result<Self, Error> {
        let (call, wire) = (file.call(Operation::Put), Wire::default());
        let request = file.s3.client.create_multipart_upload().bucket(&file.bucket).key(&file.key);
        let sent = request.customize().interceptor(wire.clone()).send().await;
        let answer = sent.map_err(|e| fault::of(&call, e, &wire))?;
        let id = answer.upload_id().ok_or_else(|| corrupt(file, "an upload without an id"))?.to_owned();
        Ok(Self { id, started: 0, done: Vec::new(), in_flight: JoinSet::new() })
    }

    async fn end(mut self, file: File) {
        // A part that arrives after the end would stay. One that is under way may arrive though nobody waits for it any
        // more, so each is waited for; its own deadlines bound that.
        while self.in_flight.join_next().await.is_some() {}
        let request = file.s3.client.abort_multipart_upload().bucket(&file.bucket).key(&file.key).upload_id(&self.id);
        // Whatever the answer: there is nothing more to do here.
        drop(request.send().await);
    }
}

/// The SDK may repeat it: a part that comes twice replaces itself.
async fn send_part(file: File, upload: String, number: i32, body: Bytes) -> Result<CompletedPart, Error> {
    let (call, wire) = (file.call(Operation::Put), Wire::default());
    let request = file.s3.client.upload_part().bucket(&file.bucket).key(&file.key).upload_id(upload);
    let request = request.part_number(number).body(ByteStream::from(body)).customize().interceptor(wire.clone());
    let answer = request.send().await.map_err(|e| fault::of(&call, e, &wire))?;
    let tag = answer.e_tag().ok_or_else(|| corrupt(&file, "a part without a tag"))?;
    Ok(CompletedPart::builder()
        .part_number(number)
        .e_tag(tag)
        .set_checksum_crc32(answer.checksum_crc32().map(str::to_owned))
        .set_checksum_crc64_nvme(answer.checksum_crc64_nvme().map(str::to_owned))
        .build())
}

/// Puts a small file. After a lost answer the name is found taken, by this very file: names carry a UUID.
async fn put_file(file: &File, body: Bytes) -> Result<(), WriteError> {
    let (call, size) = (file.call(Operation::PutNew), body.len() as u64);
    let (mut attempt, mut lost) = (1, false);
    loop {
        match put::put_new(&call, body.clone()).await {
            Ok(Put::Stored { .. }) => return Ok(()),
            Ok(Put::AlreadyStored { .. }) if lost && is_there(file, size).await? => return Ok(()),
            Ok(Put::AlreadyStored { .. }) => return Err(WriteError::Taken),
            Err(Error::OutcomeUnknown { .. }) if attempt < ATTEMPTS => (attempt, lost) = (attempt + 1, true),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Makes the file of its parts, unless its name is taken. A lost answer is looked up: the file is there, or it is not.
async fn complete(file: &File, upload: &str, parts: &[CompletedPart], size: u64) -> Result<(), WriteError> {
    let call = file.call(Operation::PutNew);
    let mut attempt = 1;
    let mut lost = false;
    loop {
        let wire = Wire::default();
        let whole = CompletedMultipartUpload::builder().set_parts(Some(parts.to_vec())).build();
        let request = file.s3.client.complete_multipart_upload().bucket(&file.bucket).key(&file.key).upload_id(upload);
        let request = request.multipart_upload(whole).if_none_match("*").customize();
        let Err(error) = request.config_override(once()).interceptor(wire.clone()).send().await else { return Ok(()) };
        let taken = fault::status(&error) == Some(412);
        let ended = fault::code(&error) == Some("NoSuchUpload");
        let error = fault::of(&call, error, &wire);
        lost |= matches!(error, Error::OutcomeUnknown { .. });
        if lost && is_there(file, size).await? {
            return Ok(());
        }
        if taken {
            return Err(WriteError::Taken);
        }
        if ended || attempt == ATTEMPTS || !matches!(error, Error::OutcomeUnknown { .. } | Error::Retry { .. }) {
            return Err(error.into());
        }
        attempt += 1;
    }
}

/// Whether a file of this name and size is there.
async fn is_there(file: &File, size: u64) -> Result<bool, Error> {
    Ok(store::size(&file.call(Operation::Head)).await? == Some(size))
}

fn corrupt(file: &File, message: &str) -> Error {
    Error::Corrupt { operation: Operation::Put, key: file.location.clone(), message: message.to_owned() }
}

fn lost_task(file: &File, gone: tokio::task::JoinError) -> Error {
    Error::OutcomeUnknown {
        operation: Operation::Put,
        key: file.location.clone(),
        message: "the task that sent a part ended early".to_owned(),
        source: Some(Box::new(gone)),
    }
}
