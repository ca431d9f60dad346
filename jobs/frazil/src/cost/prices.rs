//! What AWS asks for: one table, each price with where it was read and when. A price that AWS's own list or page did not say where it was
//! read counts as unconfirmed, and the answer says so.

use serde::Serialize;

/// The region of the table.
pub(crate) const REGION: &str = "us-east-1";

/// One price.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Price {
    /// Its name, as `--price` takes it.
    pub(crate) name: &'static str,
    /// US dollars for `per` of the unit.
    pub(crate) dollars: f64,
    /// How many of the unit that buys.
    pub(crate) per: f64,
    /// What is counted.
    pub(crate) unit: &'static str,
    /// Where it was read.
    pub(crate) source: &'static str,
    /// When that was written or read, YYYY-MM-DD or YYYY-MM.
    pub(crate) dated: &'static str,
    /// Whether AWS itself says so there.
    pub(crate) confirmed: bool,
    /// Whether `--price` gave it.
    pub(crate) given: bool,
}

const fn price(
    name: &'static str,
    dollars: f64,
    per: f64,
    unit: &'static str,
    (source, dated): (&'static str, &'static str),
    confirmed: bool,
) -> Price {
    Price { name, dollars, per, unit, source, dated, confirmed, given: false }
}

const LAMBDA_PAGE: (&str, &str) = ("the pricing page of AWS Lambda, as transcribed", "2026-09-20");
const LAMBDA_QUOTED: (&str, &str) = ("the pricing page of AWS Lambda, as others quote it", "2026");
const POLLERS: (&str, &str) = ("an example in the Lambda developer guide, kafka-scaling-modes", "2026-11-29");
const S3_LIST: (&str, &str) = ("AWS's price list of Amazon S3", "2026-09-28");
const CLOUDWATCH: (&str, &str) = ("the pricing page of Amazon CloudWatch, as others quote it", "2026-02");
const SCHEDULER: (&str, &str) = ("the pricing page of Amazon EventBridge, as others quote it", "2026-03");
const GLUE: (&str, &str) = ("an example on the pricing page of AWS Lake Formation", "2026-12-01");
const ENDPOINT_HOURS: (&str, &str) = ("the pricing page of AWS PrivateLink, as others quote it", "2026-05");
const ENDPOINT_BYTES: (&str, &str) = ("the pricing page of AWS PrivateLink, first petabyte", "2026-12-01");

/// The first step of each, where prices come in steps: from there on the real ones are lower.
static TABLE: [Price; 14] = [
    price("lambda-request", 0.20, 1e6, "requests", LAMBDA_PAGE, true),
    price("lambda-gb-second-arm64", 0.000_013_333_4, 1.0, "GB-seconds", LAMBDA_QUOTED, false),
    price("lambda-gb-second-x86", 0.000_016_666_7, 1.0, "GB-seconds", LAMBDA_QUOTED, false),
    price("poller-epu-hour", 0.185, 1.0, "EPU-hours", POLLERS, true),
    price("s3-put", 0.005, 1e3, "PUTs", S3_LIST, true),
    price("s3-list", 0.005, 1e3, "LISTs", S3_LIST, true),
    price("s3-get", 0.0004, 1e3, "GETs", S3_LIST, true),
    price("s3-gb-month", 0.023, 1.0, "GB-months", S3_LIST, true),
    price("cloudwatch-metric-month", 0.30, 1.0, "metric-months", CLOUDWATCH, false),
    price("cloudwatch-log-gb", 0.50, 1.0, "GB", CLOUDWATCH, false),
    price("scheduler-invocation", 1.00, 1e6, "invocations", SCHEDULER, false),
    price("glue-request", 1.00, 1e6, "requests", GLUE, true),
    price("endpoint-hour", 0.01, 1.0, "endpoint-hours", ENDPOINT_HOURS, false),
    price("endpoint-gb", 0.01, 1.0, "GB", ENDPOINT_BYTES, true),
];

/// The prices that an estimate is made with.
#[derive(Clone, Debug)]
pub(crate) struct Prices {
    /// The region that they are of.
    pub(crate) region: String,
    pub(crate) all: Vec<Price>,
}

/// Why there are no such prices.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("--price {text:?} is not of the form NAME=DOLLARS")]
    Form { text: String },
    #[error("there is no price named `{name}`")]
    Unknown { name: String },
    #[error("the price `{name}` is given twice")]
    Twice { name: &'static str },
    #[error("the price `{name}` is {value:?}, and has to be a number of dollars from 0 to 1,000,000")]
    Value { name: &'static str, value: String },
    #[error("frazil has no prices of the region `{region}`; {} of them are not given", missing.len())]
    Region { region: String, missing: Vec<&'static str> },
}

impl Fault {
    pub(crate) fn remedy(&self) -> String {
        let names = || TABLE.iter().map(|price| price.name).collect::<Vec<_>>().join(", ");
        match self {
            Self::Form { .. } | Self::Value { .. } => {
                "say --price s3-put=0.0054, in dollars for what the table says".to_owned()
            }
            Self::Unknown { .. } => format!("the names are {}", names()),
            Self::Twice { .. } => "give each price once".to_owned(),
            Self::Region { missing, .. } => {
                format!(
                    "leave --region out for those of {REGION}, or give these with --price, too: {}",
                    missing.join(", ")
                )
            }
        }
    }
}

/// The most that a price may be given as: a slip in it should not come out as a sum.
const DOLLARS_MAX: f64 = 1e6;

impl Prices {
    /// The table, with what is given as `NAME=DOLLARS` in its place. Another region's have to be given, all of them.
    ///
    /// # Errors
    /// The first [`Fault`].
    pub(crate) fn with(region: &str, given: &[String]) -> Result<Self, Fault> {
        let mut all = TABLE.to_vec();
        for text in given {
            let (name, value) = text.split_once('=').ok_or_else(|| Fault::Form { text: text.clone() })?;
            let price = all.iter_mut().find(|price| price.name == name.trim());
            let price = price.ok_or_else(|| Fault::Unknown { name: name.trim().to_owned() })?;
            if price.given {
                return Err(Fault::Twice { name: price.name });
            }
            let dollars = value.trim().parse::<f64>().ok().filter(|dollars| (0.0..=DOLLARS_MAX).contains(dollars));
            let Some(dollars) = dollars else {
                return Err(Fault::Value { name: price.name, value: value.trim().to_owned() });
            };
            // Minus zero is a zero that would be shown as a debt.
            *price = Price {
                dollars: dollars.abs(),
                source: "--price",
                dated: "",
                confirmed: true,
                given: true,
                ..price.clone()
            };
        }
        let missing: Vec<&'static str> = all.iter().filter(|price| !price.given).map(|price| price.name).collect();
        if region != REGION && !missing.is_empty() {
            return Err(Fault::Region { region: region.to_owned(), missing });
        }
        Ok(Self { region: region.to_owned(), all })
    }

    /// A price of the table. Names are those of the table: the tests look every one up.
    pub(crate) fn of(&self, name: &str) -> Price {
        let free = price("unknown", 0.0, 1.0, "", ("", ""), false);
        self.all.iter().find(|price| price.name == name).cloned().unwrap_or(free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_given_by_its_name_once_and_as_a_number() {
        let prices = Prices::with(REGION, &["s3-put=0.0054".to_owned(), " glue-request = 0".to_owned()]).unwrap();
        let put = prices.of("s3-put");
        assert_eq!((put.dollars, put.per, put.given, put.confirmed), (0.0054, 1e3, true, true));
        assert_eq!(prices.of("glue-request").dollars, 0.0);
        assert_eq!(prices.of("s3-get"), TABLE[6]);
        for (given, code) in [
            (&["s3-put"][..], "form"),
            (&["s3-putt=1"], "unknown"),
            (&["s3-put=1", "s3-put=2"], "twice"),
            (&["s3-put=NaN"], "value"),
            (&["s3-put=inf"], "value"),
            (&["s3-put=-1"], "value"),
            (&["s3-put="], "value"),
            (&["s3-put=1e9"], "value"),
        ] {
            let given: Vec<String> = given.iter().map(|&text| text.to_owned()).collect();
            let fault = Prices::with(REGION, &given).unwrap_err();
            let met = match &fault {
                Fault::Form { .. } => "form",
                Fault::Unknown { .. } => "unknown",
                Fault::Twice { .. } => "twice",
                Fault::Value { .. } => "value",
                Fault::Region { .. } => "region",
            };
            assert_eq!(met, code, "{given:?}");
            assert!(!fault.remedy().is_empty());
        }
    }

    #[test]
    fn another_regions_prices_are_never_assumed() {
        let Err(Fault::Region { missing, .. }) = Prices::with("eu-west-1", &["s3-put=0.005".to_owned()]) else {
            panic!("it was taken");
        };
        assert_eq!(missing.len(), TABLE.len() - 1);
        let all: Vec<String> = TABLE.iter().map(|price| format!("{}=1", price.name)).collect();
        assert_eq!(Prices::with("eu-west-1", &all).unwrap().region, "eu-west-1");
    }

    #[test]
    fn every_price_has_its_source_and_date() {
        for price in &TABLE {
            assert!(price.dollars > 0.0 && price.per > 0.0 && !price.unit.is_empty(), "{}", price.name);
            assert!(price.source.len() > 10 && price.dated.starts_with("2026"), "{}", price.name);
            assert_eq!(TABLE.iter().filter(|other| other.name == price.name).count(), 1, "{}", price.name);
        }
    }
}
