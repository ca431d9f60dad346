//! Names that AWS gives: of regions and of table buckets.

use crate::fault::code;
use crate::reader::{Reader, Text};

/// A region's name, such as `eu-west-1`, by its shape: new ones come every year.
pub(super) fn region(reader: &mut Reader<'_>, text: &Text, name: &str) -> Option<String> {
    if is_region(&text.value) {
        return Some(text.value.clone());
    }
    let message = format!("`{name}` cannot be {:?}; it takes an AWS region, such as \"eu-west-1\"", text.value);
    reader.fault(text.at, code::INVALID, message);
    None
}

/// Words of small letters and a number: `us-gov-west-1`, `ap-southeast-2`.
pub(super) fn is_region(text: &str) -> bool {
    let Some((words, number)) = text.rsplit_once('-') else { return false };
    let is_word = |word: &str| (2..=9).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_lowercase());
    words.split('-').all(is_word)
        && (2..=3).contains(&words.split('-').count())
        && (1..=2).contains(&number.len())
        && number.bytes().all(|b| b.is_ascii_digit())
}

/// The region of a table bucket's ARN, `arn:aws:s3tables:REGION:ACCOUNT:bucket/NAME`; none of anything else.
pub(super) fn region_of_table_bucket(arn: &str) -> Option<&str> {
    let mut parts = arn.splitn(6, ':');
    let [scheme, partition, service, region, account, resource] = std::array::from_fn(|_| parts.next().unwrap_or(""));
    let of = |text: &str, also: &[u8]| {
        text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || also.contains(&b))
    };
    let name = resource.strip_prefix("bucket/")?;
    let is_one = scheme == "arn"
        && partition.starts_with("aws")
        && of(partition, b"-")
        && service == "s3tables"
        && is_region(region)
        && account.len() == 12
        && account.bytes().all(|b| b.is_ascii_digit())
        && (3..=63).contains(&name.len())
        && of(name, b"-_");
    is_one.then_some(region)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_known_by_their_shape() {
        for good in
            ["eu-west-1", "us-gov-west-1", "ap-southeast-7", "eusc-de-east-1", "us-isob-east-1", "mx-central-10"]
        {
            assert!(is_region(good), "{good}");
        }
        for bad in [
            "",
            "eu",
            "eu-west",
            "eu-west-",
            "eu-west-1a",
            "EU-west-1",
            "europe-west-1-2",
            "eu_west_1",
            "-1",
            "west-1",
            "eu-west-123",
            "eu--west-1",
        ] {
            assert!(!is_region(bad), "{bad}");
        }
    }

    #[test]
    fn table_buckets_are_named_by_their_arns() {
        let region = region_of_table_bucket;
        assert_eq!(region("arn:aws:s3tables:eu-west-1:111122223333:bucket/lake"), Some("eu-west-1"));
        assert_eq!(region("arn:aws-us-gov:s3tables:us-gov-west-1:111122223333:bucket/a-b_9"), Some("us-gov-west-1"));
        for bad in [
            "",
            "lake",
            "arn:aws:s3:::lake",
            "arn:aws:s3:eu-west-1:111122223333:bucket/lake",
            "arn:gcp:s3tables:eu-west-1:111122223333:bucket/lake",
            "arn:aws:s3tables:europe:111122223333:bucket/lake",
            "arn:aws:s3tables:eu-west-1:1111:bucket/lake",
            "arn:aws:s3tables:eu-west-1:111122223333:lake",
            "arn:aws:s3tables:eu-west-1:111122223333:bucket/",
            "arn:aws:s3tables:eu-west-1:111122223333:bucket/Lake",
            "arn:aws:s3tables:eu-west-1:111122223333:bucket/lake/table/0b1f",
        ] {
            assert_eq!(region(bad), None, "{bad}");
        }
    }
}
