//! The function under Lambda's runtime: invocations in, their bodies untouched, answers or errors out.
//!
//! The runtime hands its handler a parsed value only, and parsing is the hot path here. So a layer beneath the parsing
//! takes each invocation's body aside and leaves `null` in its place; the handler finds it again by request id.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use ingest::{Ingest, Response};
use lambda_runtime::{Diagnostic, LambdaEvent, LambdaInvocation, Runtime, service_fn};
use model::failure::Kind;
use runtime::deadline::Deadline;
use tower::{Layer, Service};

/// Kept back from an invocation's time for sending the answer: a put begun later could be stored and still end in a
/// time-out, which costs a redelivery.
const ANSWER_RESERVE: Duration = Duration::from_millis(500);

type BoxError = lambda_runtime::Error;

/// Bodies on their way past the parsing, by request id. As many as invocations under way: one, in Lambda's usual mode.
#[derive(Clone, Debug, Default)]
struct Bodies(Arc<Mutex<HashMap<String, Bytes>>>);

impl Bodies {
    fn put(&self, request_id: String, body: Bytes) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(request_id, body);
    }

    fn take(&self, request_id: &str) -> Option<Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(request_id)
    }
}

impl<S> Layer<S> for Bodies {
    type Service = TakeBody<S>;

    fn layer(&self, inner: S) -> TakeBody<S> {
        TakeBody { inner, bodies: self.clone() }
    }
}

#[derive(Debug)]
struct TakeBody<S> {
    inner: S,
    bodies: Bodies,
}

impl<S> Service<LambdaInvocation> for TakeBody<S>
where
    S: Service<LambdaInvocation, Response = (), Error = BoxError>,
{
    type Response = ();
    type Error = BoxError;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut invocation: LambdaInvocation) -> S::Future {
        let body = std::mem::replace(&mut invocation.body, Bytes::from_static(b"null"));
        self.bodies.put(invocation.context.request_id.clone(), body);
        self.inner.call(invocation)
    }
}

/// Serves invocations until the runtime interface goes away.
///
/// # Errors
/// When the runtime interface can't be reached or answers what it should not.
pub(crate) async fn serve(ingest: Arc<Ingest>) -> Result<(), BoxError> {
    let bodies = Bodies::default();
    let taken = bodies.clone();
    let handler = service_fn(move |event: LambdaEvent<()>| {
        let (ingest, bodies) = (ingest.clone(), taken.clone());
        async move { handle(&ingest, &bodies, &event.context).await }
    });
    Runtime::new(handler).layer(bodies).run().await
}

async fn handle(ingest: &Ingest, bodies: &Bodies, context: &lambda_runtime::Context) -> Result<Response, Diagnostic> {
    let request_id = context.request_id.as_str();
    let Some(body) = bodies.take(request_id) else {
        return Err(failure(request_id, Kind::Bug, "the invocation's body was not kept for its handler".to_owned()));
    };
    let deadline = Deadline::of_invocation(context.deadline, ANSWER_RESERVE);
    match ingest.handle(&body, Some(deadline.instant())).await {
        Ok(outcome) => {
            tracing::info!(
                request_id,
                records = outcome.records,
                duplicates_in_event = outcome.duplicates_in_event,
                dead_letters = outcome.dead_letters,
                filtered = ?outcome.filtered,
                records_with_unknown_fields = outcome.records_with_unknown_fields,
                staged = ?outcome.staged,
                already_stored = outcome.already_stored,
                "staged"
            );
            Ok(outcome.response)
        }
        Err(e) => Err(failure(request_id, e.kind(), chain(&e))),
    }
}

/// Logs a failure and makes Lambda's error of it: the type is the failure kind, for alarms and filters to match on.
fn failure(request_id: &str, kind: Kind, message: String) -> Diagnostic {
    tracing::error!(request_id, kind = kind.as_str(), error = message, "nothing is acknowledged");
    Diagnostic { error_type: kind.as_str().to_owned(), error_message: message }
}

/// An error with all its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        // Errors that already tell their cause in their own words need not tell it twice.
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}
