//! The contract, held against a service that speaks S3. `./test` starts one and runs these with `--ignored`.

#![expect(clippy::expect_used, reason = "all of it is test code")]

use std::sync::Arc;

use aws::s3::S3;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::{BehaviorVersion, Builder, Credentials, Region};
use bytes::Bytes;
use testkit::store_contract;

/// Never the machine's own credentials: a test has no business in anybody's bucket.
fn client() -> Client {
    #[expect(clippy::disallowed_methods, reason = "a test's own setting")]
    let endpoint = std::env::var("FRAZIL_TEST_S3_ENDPOINT").expect("FRAZIL_TEST_S3_ENDPOINT names the service");
    let config = Builder::new()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("us-east-1"))
        .endpoint_url(endpoint)
        .force_path_style(true)
        .credentials_provider(Credentials::for_tests())
        .http_client(aws_smithy_http_client::Builder::new().build_http());
    Client::from_conf(config.build())
}

/// A bucket of this name, with nothing in it but what an earlier run may have left under other names.
async fn bucket(name: &str) -> Client {
    let client = client();
    if let Err(error) = client.create_bucket().bucket(name).send().await {
        let code = aws_sdk_s3::error::ProvideErrorMetadata::code(&error).unwrap_or_default().to_owned();
        assert!(code.starts_with("BucketAlready"), "{error:?}");
    }
    client
}

#[tokio::test]
#[ignore = "needs a service that speaks S3: ./test runs it"]
async fn the_store_in_a_bucket_keeps_the_contract() {
    let client = bucket("frazil-contract").await;
    for (prefix, page) in [("", 1000), ("a prefix/ключ", 3), ("p", 1)] {
        let store = S3::from(client.clone()).store("frazil-contract", prefix).unwrap().with_page_objects(page);
        store_contract::check(Arc::new(store), "contract/").await;
    }
}

#[tokio::test]
#[ignore = "needs a service that speaks S3: ./test runs it"]
async fn files_of_every_size_come_back_as_they_were_written() {
    const PART: usize = 8 * 1024 * 1024;
    let io = S3::from(bucket("frazil-files").await).file_io();
    for size in [0, 1, PART - 1, PART, PART + 1, 5 * PART + 7] {
        let location = format!("s3://frazil-files/w/k=a%2Fb ключ+/{size}");
        let bytes: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
        let mut writer = io.new_output(&location).unwrap().writer().await.unwrap();
        for piece in bytes.chunks(1_000_003) {
            writer.write(Bytes::copy_from_slice(piece)).await.unwrap();
        }
        assert!(!io.exists(&location).await.unwrap(), "a file appears whole");
        writer.close().await.unwrap();
        let input = io.new_input(&location).unwrap();
        assert_eq!(input.metadata().await.unwrap().size, size as u64);
        assert!(input.read().await.unwrap() == bytes, "{size}");
        let reader = input.reader().await.unwrap();
        let middle = size as u64 / 2;
        assert!(reader.read(middle..size as u64).await.unwrap() == bytes[size / 2..], "{size}");
        assert!(reader.read(middle..size as u64 + 1).await.is_err());
        assert!(io.new_output(&location).unwrap().write(Bytes::from(bytes)).await.is_err(), "a taken name is refused");
        io.delete(&location).await.unwrap();
        io.delete(&location).await.unwrap();
        assert!(!io.exists(&location).await.unwrap());
    }
}
