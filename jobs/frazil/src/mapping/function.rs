//! What an event is handed to: the ingest function in this process, or one behind a Lambda endpoint.

use std::sync::Arc;

use bytes::Bytes;
use ingest::Ingest;
use model::failure::Kind;
use serde_json::Value;

use super::endpoint::Endpoint;
use super::part::Reported;
use crate::manners::failure::Failure;

/// An ingest function.
pub(super) enum Function {
    /// In this process. It stores an event as one object, so that it never answers in part.
    Here(Arc<Ingest>),
    /// Behind an endpoint. `partial` says whether answers may name records that were not stored.
    There { endpoint: Box<Endpoint>, partial: bool },
}

impl Function {
    /// Hands over an event, and gives the records that are not stored. Those of an event that failed are all to be handed over
    /// again.
    ///
    /// # Errors
    /// Why the event failed.
    pub(super) async fn invoke(&self, event: Vec<u8>) -> Result<Vec<Reported>, Failure> {
        let (endpoint, partial) = match self {
            Self::Here(ingest) => {
                let stored = ingest.handle(&event, None).await;
                return stored.map(|_| Vec::new()).map_err(|error| crate::command::ingest::failed(&error));
            }
            Self::There { endpoint, partial } => (endpoint, *partial),
        };
        let answer = endpoint.invoke(Bytes::from(event)).await?;
        let unreadable = || {
            Failure::new(Kind::Misconfigured, "invoke.answer", "the answer is not one to an event of a Kafka topic")
                .remedy("answer null, {}, or {\"batchItemFailures\":[{\"itemIdentifier\":{\"partition\":\"topic-0\",\"offset\":1}}]}")
        };
        let reported = reported(&answer).ok_or_else(unreadable)?;
        // Lambda would pass over the list then, and what was not stored would be lost.
        if !reported.is_empty() && !partial {
            let message = format!("the function names {} records that it has not stored", reported.len());
            return Err(Failure::new(Kind::Misconfigured, "invoke.partial", message).remedy(
                "say --partial-answers (`partial_answers = true` in `mapping`), or have the function fail as a whole",
            ));
        }
        Ok(reported)
    }
}

/// The records that an answer names: `null`, `{}` and an empty list name none. `None` where it can't be read: an event whose answer
/// says nothing clear has failed (Lambda developer guide, "Configuring error handling controls for Kafka event sources").
fn reported(answer: &[u8]) -> Option<Vec<Reported>> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    let failures = match &answer {
        Value::Null => return Some(Vec::new()),
        Value::Object(members) => members.get("batchItemFailures"),
        _ => return None,
    };
    let record = |item: &Value| {
        let identifier = item.get("itemIdentifier")?;
        let partition = identifier.get("partition")?.as_str()?.to_owned();
        Some(Reported { partition, offset: identifier.get("offset")?.as_i64()? })
    };
    match failures {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(items)) => items.iter().map(record).collect(),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_names_records_or_none_or_says_nothing_clear() {
        let check = |answer: &str, expected: Option<&[(&str, i64)]>| {
            let record =
                |(partition, offset): &(&str, i64)| Reported { partition: (*partition).to_owned(), offset: *offset };
            let expected = expected.map(|all| all.iter().map(record).collect::<Vec<_>>());
            assert_eq!(reported(answer.as_bytes()), expected, "{answer}");
        };
        for none in
            ["null", " {} ", "{\"batchItemFailures\":[]}", "{\"batchItemFailures\":null}", "{\"statusCode\":200}"]
        {
            check(none, Some(&[]));
        }
        let list = |identifiers: &[&str]| {
            let items: Vec<String> = identifiers.iter().map(|id| format!("{{\"itemIdentifier\":{id}}}")).collect();
            format!("{{\"batchItemFailures\":[{}]}}", items.join(","))
        };
        let one = "{\"partition\":\"t-0\",\"offset\":12}";
        check(&list(&[one, "{\"partition\":\"t-10\",\"offset\":0}"]), Some(&[("t-0", 12), ("t-10", 0)]));
        for unclear in ["", "ok", "[]", "\"done\"", "7", "true", "<html>", "{", "{\"batchItemFailures\":{}}"] {
            check(unclear, None);
        }
        for id in
            ["null", "\"\"", "\"t-0\"", "{}", "{\"partition\":\"t-0\"}", "{\"partition\":\"t-0\",\"offset\":\"12\"}"]
        {
            check(&list(&[one, id]), None);
        }
        check("{\"batchItemFailures\":[{\"itemIdentifer\":1}]}", None);
    }
}
