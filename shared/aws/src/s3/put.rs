//! The conditional put.

use std::time::Duration;

use aws_sdk_s3::primitives::ByteStream;
use bytes::Bytes;
use staging::store::{Error, Put};

use super::call::{Call, Wire, once};
use super::fault;

/// Attempts while S3 says that nothing was stored. A caller with a deadline goes on after that.
const ATTEMPTS: u32 = 4;
/// The wait before the second attempt; it doubles.
const WAIT_FIRST: Duration = Duration::from_millis(100);

/// Stores an object unless its key is taken.
///
/// The SDK makes one attempt: after a lost answer its own second one could meet the first one's object and say that
/// somebody else's was there. For keys that are hashes of their content that would be harmless, for others (a pipeline's
/// id, a settlement) it would not, and the trait promises it for none. What is repeated here is what S3 says it has not
/// stored: a 409 (another conditional put of this key is under way, and may yet fail), a request turned away, a host that
/// could not be reached. 412 is the only answer that says an object is there.
pub(super) async fn put_new(call: &Call<'_>, body: Bytes) -> Result<Put, Error> {
    let mut wait = WAIT_FIRST;
    let mut attempt = 1;
    loop {
        let wire = Wire::default();
        let request = call.s3.client.put_object().bucket(call.bucket).key(call.key).if_none_match("*");
        let request = request.body(ByteStream::from(body.clone())).customize();
        let error = match request.config_override(once()).interceptor(wire.clone()).send().await {
            Ok(_) => return Ok(Put::Stored { date: wire.date(call)? }),
            Err(error) if fault::status(&error) == Some(412) => {
                return Ok(Put::AlreadyStored { date: wire.date(call)? });
            }
            Err(error) => fault::of(call, error, &wire),
        };
        if attempt == ATTEMPTS || !matches!(error, Error::Retry { .. }) {
            return Err(error);
        }
        tokio::time::sleep(wait).await;
        wait *= 2;
        attempt += 1;
    }
}
