//! Logins to Amazon MSK by IAM, as far as this build can make them: with the feature `aws`.

use std::sync::Arc;

use kafka::{MskIam, Tokens};
use model::clock::Clock;

use crate::manners::failure::Failure;

/// Whoever makes tokens for these brokers; a first one was made to see that it can.
///
/// # Errors
/// When no region is known, or there are no credentials.
#[cfg(feature = "aws")]
pub(crate) fn tokens(
    told: &MskIam,
    bootstrap_servers: &str,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn Tokens>, Failure> {
    let who = aws::msk::Who {
        profile: told.profile.clone(),
        role: told.role_arn.clone(),
        session: told.role_session_name.clone(),
        external_id: told.role_external_id.clone(),
        sts_region: told.sts_region.clone(),
    };
    let signer = apart(async {
        let signer = aws::msk::Signer::connect(&who, bootstrap_servers).await.map_err(|e| failed(&e))?;
        signer.token(clock.now().millis()).await.map_err(|e| failed(&e))?;
        Ok(signer)
    });
    let signer = signer.map_err(|e| Failure::of(model::failure::Kind::Retry, "runtime.start", &e))??;
    tracing::debug!(region = signer.region(), "tokens for MSK can be made");
    Ok(Arc::new(Signed { signer, clock }))
}

#[cfg(feature = "aws")]
fn failed(error: &aws::msk::Error) -> Failure {
    Failure::of(error.kind(), "aws.settings", error).remedy_if(error.remedy())
}

/// Tokens that AWS credentials sign.
#[cfg(feature = "aws")]
struct Signed {
    signer: aws::msk::Signer,
    clock: Arc<dyn Clock>,
}

#[cfg(feature = "aws")]
impl std::fmt::Debug for Signed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signed").field("signer", &self.signer).finish_non_exhaustive()
    }
}

#[cfg(feature = "aws")]
impl Tokens for Signed {
    fn token(&self) -> Result<kafka::Token, String> {
        let token = apart(self.signer.token(self.clock.now().millis()));
        let token = token.map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
        tracing::debug!(expires_ms = token.expires_ms, "a token for MSK was made");
        Ok(kafka::Token { value: token.value, expires_ms: token.expires_ms })
    }
}

/// Runs a future to its end in a thread of its own: tokens are asked for wherever a client is polled, inside a runtime or
/// outside.
#[cfg(feature = "aws")]
fn apart<T: Send>(future: impl Future<Output = T> + Send) -> std::io::Result<T> {
    std::thread::scope(|scope| {
        let run = || Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future));
        let thread = std::thread::Builder::new().spawn_scoped(scope, run)?;
        thread.join().unwrap_or_else(|_| Err(std::io::Error::other("the thread panicked")))
    })
}

/// Refused.
#[cfg(not(feature = "aws"))]
pub(crate) fn tokens(_: &MskIam, _: &str, _: Arc<dyn Clock>) -> Result<Arc<dyn Tokens>, Failure> {
    Err(Failure::usage("environment.left_out", "this build of frazil leaves logins by AWS credentials out")
        .remedy("build it with its feature `aws`, as `cargo frazil` does"))
}
