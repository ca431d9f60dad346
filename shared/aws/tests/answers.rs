//! What frazil makes of each answer S3 may give, and of none.

#![expect(clippy::unwrap_used, clippy::panic, reason = "all of it is test code")]

mod fake;

use std::time::Duration;

use aws::s3::{S3, S3Store};
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, future};
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::{BehaviorVersion, Builder, Credentials, Region};
use bytes::Bytes;
use fake::{Answer, DATE, Request, Server, bare, refusal};
use model::failure::Kind;
use staging::store::{Error, Put, Store};

fn config(endpoint: &str) -> Builder {
    Builder::new()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("eu-west-1"))
        .endpoint_url(endpoint)
        .force_path_style(true)
        .credentials_provider(Credentials::for_tests())
        .retry_config(RetryConfig::standard().with_max_attempts(3).with_initial_backoff(Duration::from_millis(1)))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
}

fn client(endpoint: &str) -> S3 {
    aws_sdk_s3::Client::from_conf(config(endpoint).build()).into()
}

fn store(endpoint: &str) -> S3Store {
    client(endpoint).store("bucket", "/a prefix/").unwrap()
}

async fn serving(answer: impl Fn(usize, &Request) -> Answer + Send + Sync + 'static) -> (Server, S3Store) {
    let server = Server::start(answer).await;
    let store = store(&server.endpoint);
    (server, store)
}

fn body() -> Bytes {
    Bytes::from_static(b"body")
}

/// Nothing that must stay secret is in what a person sees.
fn said(error: &dyn std::error::Error) -> String {
    let mut text = format!("{error} {error:?}");
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(&format!(" {next} {next:?}"));
        cause = next.source();
    }
    let credentials = Credentials::for_tests();
    for secret in [credentials.secret_access_key(), "Signature="] {
        assert!(!text.contains(secret), "{text}");
    }
    error.to_string()
}

const NOON: &str = "2026-11-29T12:00:07.000000Z";

#[tokio::test]
async fn a_put_asks_for_a_free_key_and_tells_the_stores_time() {
    let (server, store) = serving(|_, _| bare(200)).await;
    let put = store.put_new("runs/x=1", body()).await.unwrap();
    assert!(matches!(put, Put::Stored { .. }));
    assert_eq!(put.date().to_string(), NOON);
    assert_eq!(store.put("runs/x=1", body()).await.unwrap().to_string(), NOON);
    let requests = server.requests();
    assert_eq!(server.lines(), ["PUT /bucket/a%20prefix/runs/x%3D1"; 2]);
    assert_eq!(requests[0].header("if-none-match"), Some("*"));
    assert_eq!((requests[1].header("if-none-match"), requests[1].body), (None, 4));
}

#[tokio::test]
async fn a_taken_key_is_stored_already_and_only_412_says_so() {
    let (server, store) = serving(|_, _| refusal(412, DATE, "PreconditionFailed")).await;
    let put = store.put_new("k", body()).await.unwrap();
    assert!(matches!(put, Put::AlreadyStored { .. }), "{put:?}");
    assert_eq!(put.date().to_string(), NOON);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_409_is_not_stored() {
    let (server, store) =
        serving(|n, _| if n < 2 { refusal(409, DATE, "ConditionalRequestConflict") } else { bare(200) }).await;
    assert!(matches!(store.put_new("k", body()).await.unwrap(), Put::Stored { .. }));
    assert_eq!(server.requests().len(), 3);

    let (server, store) = serving(|_, _| refusal(409, DATE, "ConditionalRequestConflict")).await;
    let error = store.put_new("k", body()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Retry, "{}", said(&error));
    assert_eq!(server.requests().len(), 4, "the tries are bounded");
}

#[tokio::test]
async fn a_conditional_put_whose_answer_got_lost_is_not_repeated_but_said() {
    for lost in [true, false] {
        let (server, store) = serving(move |n, _| match (n, lost) {
            (0, true) => Answer::HangUp,
            (0, false) => refusal(500, DATE, "InternalError"),
            _ => refusal(412, DATE, "PreconditionFailed"),
        })
        .await;
        let error = store.put_new("k", body()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::OutcomeUnknown, "{}", said(&error));
        assert_eq!(server.requests().len(), 1);
        // The caller's next call is the look-up.
        assert!(matches!(store.put_new("k", body()).await.unwrap(), Put::AlreadyStored { .. }));
    }
}

#[tokio::test]
async fn a_put_that_replaces_is_repeated_and_what_is_lost_stays_unknown() {
    let (server, store) = serving(|n, _| if n == 0 { Answer::HangUp } else { bare(200) }).await;
    assert_eq!(store.put("k", body()).await.unwrap().to_string(), NOON);
    assert_eq!(server.requests().len(), 2);

    for later in [None, Some((503, "SlowDown")), Some((403, "AccessDenied"))] {
        let (_server, store) = serving(move |n, _| match later {
            Some((status, code)) if n > 0 => refusal(status, DATE, code),
            _ => Answer::HangUp,
        })
        .await;
        let error = store.put("k", body()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::OutcomeUnknown, "{later:?}: {}", said(&error));
    }
}

#[tokio::test]
async fn a_store_that_asks_for_patience_has_done_nothing() {
    for status in [503, 429] {
        let (server, store) = serving(move |_, _| refusal(status, DATE, "SlowDown")).await;
        for error in [
            store.put_new("k", body()).await.unwrap_err(),
            store.put("k", body()).await.unwrap_err(),
            store.get("k").await.unwrap_err(),
            store.list("k", None, None).await.unwrap_err(),
            store.delete("k").await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), Kind::Retry, "{}", said(&error));
        }
        assert_eq!(server.requests().len(), 4 + 4 * 3, "each is tried a few times");
        let (server, store) =
            serving(move |n, _| if n == 0 { refusal(status, DATE, "SlowDown") } else { bare(200) }).await;
        assert!(matches!(store.put_new("k", body()).await.unwrap(), Put::Stored { .. }));
        assert_eq!(server.requests().len(), 2);
    }
}

#[tokio::test]
async fn a_store_that_can_not_be_reached_has_done_nothing() {
    // A port that nobody listens at any more.
    let endpoint = Server::start(|_, _| Answer::HangUp).await.endpoint.clone();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let store = store(&endpoint);
    for error in [
        store.put_new("k", body()).await.unwrap_err(),
        store.put("k", body()).await.unwrap_err(),
        store.delete("k").await.unwrap_err(),
        store.head("k").await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), Kind::Retry, "{}", said(&error));
        assert!(said(&error).contains("could not be reached"), "{}", said(&error));
    }
}

/// Each call's error under one answer.
async fn errors(status: u16, headers: &'static str, code: &'static str) -> Vec<Error> {
    let (_server, store) = serving(move |_, _| refusal(status, headers, code)).await;
    vec![
        store.put_new("k", body()).await.unwrap_err(),
        store.put("k", body()).await.unwrap_err(),
        store.get("k").await.unwrap_err(),
        store.get_range("k", 3..4).await.unwrap_err(),
        store.head("k").await.unwrap_err(),
        store.list("k", None, None).await.unwrap_err(),
        store.delete("k").await.unwrap_err(),
    ]
}

#[tokio::test]
async fn what_a_person_must_change_is_said() {
    let check = async |status, headers, code, expected: &[&str]| {
        for error in errors(status, headers, code).await {
            let text = said(&error);
            assert_eq!(error.kind(), Kind::Misconfigured, "{text}");
            assert!(expected.iter().all(|part| text.contains(part)), "{text}");
        }
    };
    let region = "date: Sun, 29 Nov 2026 12:00:07 GMT\r\nx-amz-bucket-region: ap-south-1\r\nx-amz-request-id: R7\r\n";
    check(301, region, "PermanentRedirect", &["`bucket` is in ap-south-1", "eu-west-1", "AWS_REGION=ap-south-1"]).await;
    check(400, region, "AuthorizationHeaderMalformed", &["AWS_REGION=ap-south-1", "request R7"]).await;
    check(301, DATE, "PermanentRedirect", &["not in eu-west-1", "AWS_REGION"]).await;
    check(501, DATE, "NotImplemented", &["conditional put"]).await;
    check(400, DATE, "InvalidArgument", &["400"]).await;
}

#[tokio::test]
async fn what_only_a_body_can_say_is_said_where_there_is_one() {
    let check = async |status, code, expected: &str| {
        for error in errors(status, DATE, code).await {
            let text = said(&error);
            assert_eq!(error.kind(), Kind::Misconfigured, "{text}");
            assert!(text.contains(expected) || text.starts_with("head `k`"), "{text}");
        }
    };
    check(403, "RequestTimeTooSkewed", "S3's own time is Sun, 29 Nov 2026 12:00:07 GMT").await;
    check(403, "SignatureDoesNotMatch", "credentials were refused").await;
    check(400, "ExpiredToken", "credentials were refused").await;
    check(403, "InvalidObjectState", "restore it").await;
}

#[tokio::test]
async fn a_denial_names_the_permission() {
    let rights: Vec<String> = errors(403, DATE, "AccessDenied").await.iter().map(|e| said(e)).collect();
    let object = "arn:aws:s3:::bucket/a prefix/k";
    for (text, right) in rights.iter().zip([
        format!("s3:PutObject on {object} is denied"),
        format!("s3:PutObject on {object} is denied"),
        format!("s3:GetObject on {object} is denied, or it is not there and s3:ListBucket"),
        format!("s3:GetObject on {object} is denied, or"),
        format!("s3:GetObject on {object} is denied, or"),
        "s3:ListBucket on arn:aws:s3:::bucket (prefix a prefix/k) is denied".to_owned(),
        format!("s3:DeleteObject on {object} is denied"),
    ]) {
        assert!(text.contains(&right), "{text}");
    }
}

#[tokio::test]
async fn a_missing_object_and_a_missing_bucket_are_two_things() {
    let (_server, store) = serving(|_, _| refusal(404, DATE, "NoSuchKey")).await;
    assert!(store.get("k").await.unwrap_err().is_not_found());
    assert!(store.get_range("k", 0..1).await.unwrap_err().is_not_found());
    assert!(store.get_range("k", 1..1).await.unwrap_err().is_not_found());
    assert_eq!(store.head("k").await.unwrap(), None);
    let (_server, store) = serving(|_, _| refusal(404, DATE, "NoSuchBucket")).await;
    for error in [
        store.put_new("k", body()).await.unwrap_err(),
        store.get("k").await.unwrap_err(),
        store.list("", None, None).await.unwrap_err(),
        store.delete("k").await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), Kind::Misconfigured);
        assert!(said(&error).contains("there is no bucket `bucket`"), "{}", said(&error));
    }
}

#[tokio::test]
async fn an_answer_without_a_time_is_not_believed() {
    let (_server, store) = serving(|_, _| Answer::Say(200, "", String::new())).await;
    assert_eq!(store.put_new("k", body()).await.unwrap_err().kind(), Kind::Corrupt);
    assert_eq!(store.put("k", body()).await.unwrap_err().kind(), Kind::Corrupt);
    let (_server, store) = serving(|_, _| Answer::Say(200, "date: soon\r\n", String::new())).await;
    assert!(said(&store.put_new("k", body()).await.unwrap_err()).contains("soon"));
}

#[tokio::test]
async fn ranges_are_asked_for_by_their_last_byte_and_past_the_end_there_is_nothing() {
    let (server, store) = serving(|n, _| match n {
        0 => Answer::Say(206, "content-range: bytes 2-4/9\r\n", "cde".to_owned()),
        1 => Answer::Say(206, "content-range: bytes 7-8/9\r\n", "hi".to_owned()),
        2 => refusal(416, DATE, "InvalidRange"),
        _ => Answer::Say(200, DATE, "abcdefghi".to_owned()),
    })
    .await;
    assert_eq!(store.get_range("k", 2..5).await.unwrap(), "cde");
    assert_eq!(store.get_range("k", 7..u64::MAX).await.unwrap(), "hi");
    assert_eq!(store.get_range("k", 9..10).await.unwrap(), "");
    let error = store.get_range("k", 2..5).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "a service that knows no ranges: {}", said(&error));
    let ranges: Vec<_> = server.requests().iter().map(|r| r.header("range").unwrap().to_owned()).collect();
    assert_eq!(ranges, ["bytes=2-4", "bytes=7-", "bytes=9-9", "bytes=2-4"]);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_asked_for_again() {
    let (server, store) = serving(|n, _| {
        let whole = "0123456789".to_owned();
        if n == 0 { Answer::Cut(200, DATE, whole) } else { Answer::Say(200, DATE, whole) }
    })
    .await;
    assert_eq!(store.get("k").await.unwrap(), "0123456789");
    assert_eq!(server.requests().len(), 2);
    let (server, store) = serving(|_, _| Answer::Cut(200, DATE, "0123456789".to_owned())).await;
    let error = store.get("k").await.unwrap_err();
    assert_eq!(error.kind(), Kind::Retry, "{}", said(&error));
    assert_eq!(server.requests().len(), 3);
}

fn page(keys: &[&str], more: &str) -> Answer {
    let objects: String = keys.iter().map(|k| format!("<Contents><Key>{k}</Key><Size>3</Size></Contents>")).collect();
    Answer::Say(200, DATE, format!("<?xml version=\"1.0\"?><ListBucketResult>{objects}{more}</ListBucketResult>"))
}

#[tokio::test]
async fn a_listing_goes_on_where_it_ended_and_gives_what_was_asked_for() {
    let (server, store) = serving(|n, _| match n {
        0 => page(
            &["a%20prefix/s/", "a%20prefix/s/1+2", "a%20prefix/s/%D0%BA%01"],
            "<IsTruncated>true</IsTruncated><NextContinuationToken>t/1=</NextContinuationToken>",
        ),
        1 => page(&[], "<IsTruncated>false</IsTruncated>"),
        2 => page(&["a%20prefix/t"], ""),
        _ => page(&[], "<IsTruncated>true</IsTruncated>"),
    })
    .await;
    let first = store.list("s/", Some("s/0"), None).await.unwrap();
    let keys: Vec<_> = first.objects.iter().map(|o| (o.key.as_str(), o.size)).collect();
    assert_eq!(keys, [("s/1 2", 3), ("s/к\u{1}", 3)], "a folder's mark is no object");
    assert_eq!((first.next.as_deref(), first.date.to_string().as_str()), (Some("t/1="), NOON));
    let second = store.list("s/", Some("s/0"), Some("t/1=")).await.unwrap();
    assert_eq!((second.objects.len(), second.next), (0, None));
    for why in ["another prefix", "no way on"] {
        assert_eq!(store.list("s/", None, None).await.unwrap_err().kind(), Kind::Corrupt, "{why}");
    }
    let lines: Vec<_> = server.requests().into_iter().map(|r| r.line).collect();
    assert!(lines[0].contains("start-after=a%20prefix%2Fs%2F0") && lines[0].contains("prefix=a%20prefix%2Fs%2F"));
    assert!(lines[1].contains("continuation-token=t%2F1%3D") && !lines[1].contains("start-after"), "{}", lines[1]);
}

#[derive(Debug)]
struct Locked;

impl ProvideCredentials for Locked {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::ready(Err(CredentialsError::not_loaded("nothing here")))
    }
}

#[tokio::test]
async fn without_credentials_nothing_is_sent() {
    let server = Server::start(|_, _| bare(200)).await;
    let config = config(&server.endpoint).credentials_provider(Locked).build();
    let store = S3::from(aws_sdk_s3::Client::from_conf(config)).store("bucket", "").unwrap();
    let error = store.put_new("k", body()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Misconfigured, "{}", said(&error));
    assert!(said(&error).contains("no AWS credentials"), "{}", said(&error));
    assert!(server.requests().is_empty());
}

#[test]
fn a_store_is_in_a_general_purpose_bucket() {
    let s3 = client("http://127.0.0.1:9");
    for (bucket, prefix) in [("", "p"), ("b--use1-az4--x-s3", "p"), ("b/c", ""), ("bucket", "a//b"), ("bucket", "../a")]
    {
        assert!(s3.store(bucket, prefix).is_err(), "{bucket} {prefix}");
    }
    assert!(s3.store("bucket", "").is_ok());
}

mod files {
    use super::*;

    const LOCATION: &str = "s3://bucket/w/t/data/k=a%2Fb/1.parquet";
    const PATH: &str = "/bucket/w/t/data/k%3Da%252Fb/1.parquet";
    const PART: usize = 8 * 1024 * 1024;

    fn created() -> Answer {
        let body = "<?xml version=\"1.0\"?><InitiateMultipartUploadResult><UploadId>U1</UploadId></InitiateMultipartUploadResult>";
        Answer::Say(200, DATE, body.to_owned())
    }

    fn completed() -> Answer {
        let body =
            "<?xml version=\"1.0\"?><CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>";
        Answer::Say(200, DATE, body.to_owned())
    }

    #[tokio::test]
    async fn a_small_file_is_one_conditional_put() {
        let server = Server::start(|_, _| bare(200)).await;
        let io = client(&server.endpoint).file_io();
        let mut writer = io.new_output(LOCATION).unwrap().writer().await.unwrap();
        writer.write(Bytes::from_static(b"one")).await.unwrap();
        writer.write(Bytes::from_static(b"two")).await.unwrap();
        writer.close().await.unwrap();
        assert!(writer.close().await.is_err());
        let requests = server.requests();
        assert_eq!(server.lines(), [format!("PUT {PATH}")]);
        assert_eq!((requests[0].header("if-none-match"), requests[0].body), (Some("*"), 6));
    }

    #[tokio::test]
    async fn a_taken_name_is_refused_unless_it_was_this_very_write() {
        let check = async |answers: fn(usize, &Request) -> Answer, kind: Option<Kind>| {
            let server = Server::start(answers).await;
            let io = client(&server.endpoint).file_io();
            let written = io.new_output(LOCATION).unwrap().write(Bytes::from_static(b"123")).await;
            assert_eq!(written.as_ref().err().map(table::storage::kind_of), kind, "{written:?}");
        };
        check(|_, _| refusal(412, DATE, "PreconditionFailed"), Some(Kind::Bug)).await;
        let lost_then = |n: usize, length: &'static str| match n {
            0 => Answer::HangUp,
            1 => refusal(412, DATE, "PreconditionFailed"),
            _ => Answer::Say(200, length, String::new()),
        };
        fn ours(n: usize, _: &Request, other: fn(usize, &'static str) -> Answer) -> Answer {
            other(n, "content-length: 3\r\n")
        }
        fn theirs(n: usize, _: &Request, other: fn(usize, &'static str) -> Answer) -> Answer {
            other(n, "content-length: 4\r\n")
        }
        let lost_then: fn(usize, &'static str) -> Answer = lost_then;
        for (answers, kind) in [(ours as fn(_, &_, _) -> _, None), (theirs, Some(Kind::Bug))] {
            let server = Server::start(move |n, r| answers(n, r, lost_then)).await;
            let io = client(&server.endpoint).file_io();
            let written = io.new_output(LOCATION).unwrap().write(Bytes::from_static(b"123")).await;
            assert_eq!(written.as_ref().err().map(table::storage::kind_of), kind, "{written:?}");
        }
        check(|_, _| Answer::HangUp, Some(Kind::Retry)).await;
        check(|_, _| refusal(403, DATE, "AccessDenied"), Some(Kind::Misconfigured)).await;
    }

    /// Answers an upload of several parts; `last` answers the request that makes the file.
    fn parts(request: &Request, last: impl FnOnce() -> Answer) -> Answer {
        match request.line.split_once(' ').unwrap() {
            ("POST", query) if query.contains("uploads") => created(),
            ("PUT", _) => Answer::Say(200, "etag: \"e\"\r\ndate: Sun, 29 Nov 2026 12:00:07 GMT\r\n", String::new()),
            ("POST", _) => last(),
            ("DELETE", _) => bare(204),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_large_file_goes_in_parts_and_appears_once() {
        let server = Server::start(|_, request| parts(request, completed)).await;
        let io = client(&server.endpoint).file_io();
        let mut writer = io.new_output(LOCATION).unwrap().writer().await.unwrap();
        for _ in 0..5 {
            writer.write(Bytes::from(vec![1; PART / 2])).await.unwrap();
        }
        writer.close().await.unwrap();
        let requests = server.requests();
        let mut sizes: Vec<_> = requests.iter().filter(|r| r.line.starts_with("PUT")).map(|r| r.body).collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [PART / 2, PART, PART]);
        let last = requests.last().unwrap();
        assert!(last.line.starts_with("POST") && last.line.contains("uploadId=U1"), "{last:?}");
        assert_eq!(last.header("if-none-match"), Some("*"));
        assert!(!requests.iter().any(|r| r.line.starts_with("DELETE")));
    }

    #[tokio::test]
    async fn what_fails_half_way_is_ended() {
        let check = async |last: fn() -> Answer, kind: Kind| {
            let server = Server::start(move |_, request| parts(request, last)).await;
            let io = client(&server.endpoint).file_io();
            let error = io.new_output(LOCATION).unwrap().write(Bytes::from(vec![1; PART + 1])).await.unwrap_err();
            assert_eq!(table::storage::kind_of(&error), kind, "{error}");
            let last = server.requests().pop().unwrap().line;
            assert!(last.starts_with("DELETE") && last.contains("uploadId=U1"), "{last}");
        };
        check(|| refusal(412, DATE, "PreconditionFailed"), Kind::Bug).await;
        check(|| refusal(403, DATE, "AccessDenied"), Kind::Misconfigured).await;

        // A part fails.
        let server = Server::start(|_, request| match &request.line {
            line if line.starts_with("PUT") => refusal(403, DATE, "AccessDenied"),
            _ => parts(request, completed),
        })
        .await;
        let io = client(&server.endpoint).file_io();
        let mut writer = io.new_output(LOCATION).unwrap().writer().await.unwrap();
        writer.write(Bytes::from(vec![1; PART + 1])).await.unwrap();
        assert!(writer.close().await.is_err());
        assert!(writer.close().await.is_err(), "a shorter file must not come of a later close");
        assert!(server.lines().last().unwrap().starts_with("DELETE"));
    }

    #[tokio::test]
    async fn an_answer_lost_at_the_end_is_looked_up() {
        // The file is there, or the request is made again.
        for there in [true, false] {
            let server = Server::start(move |n, request| match request.line.split_once(' ').unwrap() {
                ("HEAD", _) if there => Answer::Say(200, "content-length: 8388609\r\n", String::new()),
                ("HEAD", _) => bare(404),
                _ => parts(request, || if n == 3 { Answer::HangUp } else { completed() }),
            })
            .await;
            let io = client(&server.endpoint).file_io();
            io.new_output(LOCATION).unwrap().write(Bytes::from(vec![1; PART + 1])).await.unwrap();
            let made =
                server.requests().iter().filter(|r| r.line.contains("POST") && r.line.contains("uploadId")).count();
            assert_eq!(made, if there { 1 } else { 2 });
        }
    }

    #[tokio::test]
    async fn a_writer_that_is_dropped_ends_its_upload() {
        let server = Server::start(|_, request| parts(request, completed)).await;
        let io = client(&server.endpoint).file_io();
        let mut writer = io.new_output(LOCATION).unwrap().writer().await.unwrap();
        writer.write(Bytes::from(vec![1; PART + 1])).await.unwrap();
        drop(writer);
        for _ in 0..200 {
            if server.lines().iter().any(|line| line.starts_with("DELETE")) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{:?}", server.lines());
    }

    #[tokio::test]
    async fn a_read_gives_exactly_its_bytes_or_fails() {
        let server = Server::start(|_, request| match request.header("range") {
            Some("bytes=2-4") => Answer::Say(206, DATE, "cde".to_owned()),
            Some("bytes=7-9") => Answer::Say(206, DATE, "hi".to_owned()),
            Some(_) => refusal(416, DATE, "InvalidRange"),
            None => refusal(404, DATE, "NoSuchKey"),
        })
        .await;
        let io = client(&server.endpoint).file_io();
        let reader = io.new_input(LOCATION).unwrap().reader().await.unwrap();
        assert_eq!(reader.read(2..5).await.unwrap(), "cde");
        assert_eq!(reader.read(5..5).await.unwrap(), "");
        for range in [7..10, 20..30, std::ops::Range { start: 5, end: 4 }] {
            let error = reader.read(range).await.unwrap_err();
            assert_eq!(table::storage::kind_of(&error), Kind::Corrupt, "{error}");
        }
        let error = io.new_input(LOCATION).unwrap().read().await.unwrap_err();
        assert_eq!(table::storage::kind_of(&error), Kind::Corrupt, "{error}");
        assert!(!io.exists(LOCATION).await.unwrap());
        assert!(io.new_input("file:///x").unwrap().read().await.is_err());
    }
}
