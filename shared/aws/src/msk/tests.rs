use super::*;

const KEY: &str = "AKIAIOSFODNN7EXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
/// 2026-11-30T05:00:00.789Z
const NOW_MS: i64 = 1_796_014_800_789;

fn signed(session: Option<&str>, ends_ms: Option<u64>) -> (String, i64) {
    let expiry = ends_ms.map(|ms| UNIX_EPOCH + Duration::from_millis(ms));
    let credentials = Credentials::new(KEY, SECRET, session.map(str::to_owned), expiry, "test");
    let token = presign(credentials, "eu-west-1", NOW_MS).unwrap();
    assert!(!format!("{token:?}").contains(&token.value));
    let url = base64_simd::URL_SAFE_NO_PAD.decode_to_vec(&token.value).unwrap();
    (String::from_utf8(url).unwrap(), token.expires_ms)
}

/// Signatures by botocore 1.44.8 (`botocore.auth.SigV4QueryAuth`) of the same request at the same time.
#[test]
fn a_token_is_a_presigned_request_to_connect() {
    let (url, ends) = signed(None, None);
    assert_eq!(
        url,
        format!(
            "https://kafka.eu-west-1.amazonaws.com/?Action=kafka-cluster%3AConnect&X-Amz-Algorithm=AWS4-HMAC-SHA256&\
             X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20261130%2Feu-west-1%2Fkafka-cluster%2Faws4_request&\
             X-Amz-Date=20261130T050000Z&X-Amz-Expires=900&X-Amz-SignedHeaders=host&\
             X-Amz-Signature=4da3c9465f1bfc1fd2be234332a3f8377e26983c321893ceddcf9d52d325efbb&User-Agent={USER_AGENT}"
        )
    );
    assert_eq!(ends, NOW_MS - 789 + 900_000);

    // The session's token is part of what is signed.
    let (url, ends) = signed(Some("IQoJ+b3/Jp=="), Some(1_796_014_860_500));
    assert!(url.contains("&X-Amz-Security-Token=IQoJ%2Bb3%2FJp%3D%3D&"), "{url}");
    assert!(
        url.contains("&X-Amz-Signature=a8047d0b467df6d3214aa8143cf5123d1fadf7e433f772228069ff68c5e0b3c2&"),
        "{url}"
    );
    // It is worth nothing longer than the credentials are.
    assert_eq!(ends, 1_796_014_860_500);
}

#[test]
fn the_region_is_in_the_brokers_names() {
    for (servers, region) in [
        (
            "b-1.demo.a1b2c3.c2.kafka.eu-west-1.amazonaws.com:9098,b-2.demo.a1b2c3.c2.kafka.eu-west-1.amazonaws.com:9098",
            Some("eu-west-1"),
        ),
        ("boot-a1b2c3.c1.kafka-serverless.us-east-2.amazonaws.com:9098", Some("us-east-2")),
        ("b-1-public.demo.a1b2c3.c2.kafka.us-gov-west-1.amazonaws.com:9198", Some("us-gov-west-1")),
        ("b-1.demo.a1b2c3.c2.kafka.cn-north-1.amazonaws.com.cn:9098", Some("cn-north-1")),
        ("127.0.0.1:9098, b-1.demo.a1b2c3.c2.kafka.eu-west-1.amazonaws.com", Some("eu-west-1")),
        ("kafka.example.com:9092", None),
        ("kafka.eu-west-1.example.com:9092", None),
        ("kafka", None),
        ("[::1]:9092", None),
        ("", None),
    ] {
        assert_eq!(region_of(servers), region, "{servers}");
    }
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    for (error, kind, remedy) in [
        (Error::NoRegion, Kind::Misconfigured, "AWS_REGION"),
        (CredentialsError::not_loaded_no_source().into(), Kind::Misconfigured, "AWS_PROFILE"),
        (CredentialsError::invalid_configuration("no profile `dev`").into(), Kind::Misconfigured, "profile"),
    ] {
        let error: Error = error;
        assert!(error.kind() == kind && error.remedy().is_some_and(|said| said.contains(remedy)), "{error}");
    }
    let late = Error::from(CredentialsError::provider_timed_out(WAIT));
    assert_eq!((late.kind(), late.remedy()), (Kind::Retry, None));
}
