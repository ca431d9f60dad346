//! `cost` and `size` as a person meets them: what they hold, and what they refuse.

use super::*;

const COST: [&str; 5] = ["cost", "--records-per-second", "100000", "--record-bytes", "86"];

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_cost_is_the_sum_of_its_lines_each_with_its_formula_and_price() {
    let place = Place::new();
    let bill = place.done(&COST);
    let lines = bill["lines"].as_array().unwrap();
    let sum = |member: &str| lines.iter().map(|line| number(&line[member])).sum::<f64>();
    assert!((sum("dollars_per_month") - number(&bill["dollars_per_month"])).abs() < 1e-6, "{bill}");
    let billion = number(&bill["dollars_per_billion_records"]);
    assert!((sum("dollars_per_billion_records") - billion).abs() < 1e-9, "{bill}");
    assert!(number(&bill["dollars_per_billion_records_without_pollers"]) < billion);
    let prices = bill["prices"].as_array().unwrap();
    for line in lines {
        assert!(
            line["formula"].as_str().unwrap().contains('×') && !line["from"].as_str().unwrap().is_empty(),
            "{line}"
        );
        let price = prices.iter().find(|price| price["name"] == line["price"]).unwrap();
        assert!(!price["source"].as_str().unwrap().is_empty() && !price["dated"].as_str().unwrap().is_empty());
        assert_eq!(price["confirmed"], line["confirmed"]);
    }
    let input = |name: &str| bill["inputs"].as_array().unwrap().iter().find(|input| input["name"] == name).unwrap();
    assert_eq!((&input("record-bytes")["from"], &input("record-bytes")["value"]), (&json!("given"), &json!(86)));
    assert!(input("ingest-ms")["from"].as_str().unwrap().contains("tests/bench/run"));
    // What was given is said to be given, also where it is what would have been taken.
    let same = place.done(&[&COST[..], &["--batch", "10000"]].concat());
    let batch = same["inputs"].as_array().unwrap().iter().find(|input| input["name"] == "batch").unwrap();
    assert_eq!(batch["from"], "given");
}

#[test]
fn a_cost_is_told_in_text_with_all_that_it_is_made_of() {
    let place = Place::new();
    let left = place.run(&COST);
    assert_eq!((left.exit, left.stderr.as_str()), (Exit::Done, ""));
    for part in [
        "100,000 records/s",
        "262,800,000,000 a month of 730 h",
        "26,280,000 invocations × 1 = 26,280,000 PUTs; × $0.005 ÷ 1,000 = $131.40",
        "--record-bytes 86 bytes: given",
        "s3-put 0.005 for 1,000 PUTs: AWS's price list of Amazon S3, 2026-09-28",
        "not confirmed by AWS",
        "In no line:",
    ] {
        assert!(left.stdout.contains(part), "`{part}` is not in\n{}", left.stdout);
    }
}

#[test]
fn a_price_of_ones_own_goes_before_the_tables_and_a_wrong_one_is_refused() {
    let place = Place::new();
    let with = |more: &[&str]| place.done(&[&COST[..], more].concat());
    let put = |bill: &Value| {
        number(&bill["lines"].as_array().unwrap().iter().find(|l| l["name"] == "S3 PUT").unwrap()["dollars_per_month"])
    };
    assert!((put(&with(&["--price", "s3-put=0.01"])) / put(&with(&[])) - 2.0).abs() < 1e-9);
    for (more, code) in [
        (&["--price", "s3-putt=1"][..], "cost.price"),
        (&["--price", "s3-put"], "cost.price"),
        (&["--price", "s3-put=-1"], "cost.price"),
        (&["--price", "s3-put=NaN"], "cost.price"),
        (&["--region", "eu-west-1"], "cost.price"),
        (&["--record-bytes=5000000"], "cost.record_bytes"),
        (&["--pollers", "9", "--partitions", "8"], "cost.pollers"),
        (&["--batch", "10", "--records-per-invocation", "11"], "cost.records_per_invocation"),
    ] {
        let mut arguments = COST.to_vec();
        if more[0].starts_with("--record-bytes") {
            arguments.truncate(3);
        }
        assert_eq!(place.refused(&[&arguments[..], more].concat()), (Exit::Usage, code.to_owned()), "{more:?}");
    }
}

#[test]
fn figures_that_can_not_be_are_refused_by_name_whatever_their_kind() {
    let place = Place::new();
    for option in
        ["--records-per-second", "--put-ms", "--ingest-ms", "--folds-per-hour", "--retention-hours", "--staged-bytes"]
    {
        for value in ["0", "-1", "NaN", "inf", "-inf", "1e30", "", "ten"] {
            let set = format!("{option}={value}");
            let mut arguments = vec!["cost", "--record-bytes", "86", &set];
            if option != "--records-per-second" {
                arguments.extend(["--records-per-second", "1000"]);
            }
            let (exit, document) = place.json(&arguments);
            let message = document["error"]["message"].as_str().unwrap_or_default();
            assert_eq!(exit, Exit::Usage, "{set}: {document}");
            assert!(message.contains(option), "{set}: {message}");
        }
    }
    for set in ["--record-bytes=0", "--record-bytes=-1", "--record-bytes=1.5", "--record-bytes=99999999999999999999"] {
        let (exit, code) = place.refused(&["cost", "--records-per-second", "1", set]);
        assert_eq!((exit, code.as_str()), (Exit::Usage, "usage"), "{set}");
    }
    for set in [
        "--memory=127",
        "--memory=10241",
        "--batch=0",
        "--batch=10001",
        "--window=301",
        "--window=-1",
        "--tables=0",
        "--pollers=0",
    ] {
        assert_eq!(place.refused(&[&COST[..], &[set]].concat()), (Exit::Usage, "usage".to_owned()), "{set}");
    }
    for set in [
        "--brokers=0",
        "--brokers=-3",
        "--replication=0",
        "--mb-per-second=NaN",
        "--mb-per-second=0",
        "--storage-mb-per-second=inf",
        "--consumer-groups=-1",
        "--zones=0",
    ] {
        assert_eq!(place.refused(&["size", set]), (Exit::Usage, "usage".to_owned()), "{set}");
    }
    // A rate at either end of what is taken still comes to figures.
    for rate in ["0.001", "1000000000"] {
        let bill = place.done(&["cost", "--records-per-second", rate, "--record-bytes", "1"]);
        assert!(number(&bill["dollars_per_month"]) > 0.0, "{bill}");
    }
}

#[test]
fn a_size_says_what_is_recommended_and_which_limit_binds() {
    let place = Place::new();
    let sized = place.done(&["size", "--consumer-groups", "2"]);
    assert_eq!((&sized["recommended_mb_per_s"], &sized["bound_by"]), (&json!(57.6), &json!("ec2_network")));
    assert_eq!(sized["limits"].as_array().unwrap().len(), 3);
    let provisioned =
        &["size", "--instance", "kafka.m5.4xlarge", "--storage-mb-per-second", "480", "--consumer-groups", "2"];
    assert_eq!(place.done(provisioned)["recommended_mb_per_s"], 384.0);

    let exceeded = |arguments: &[&str]| {
        let (exit, document) = place.json(arguments);
        let exceeded: Vec<String> = serde_json::from_value(document["exceeded"].clone()).unwrap();
        assert_eq!(exit == Exit::No, !exceeded.is_empty(), "{document}");
        (exceeded.join(" "), document)
    };
    assert_eq!(exceeded(&["size", "--mb-per-second", "50", "--partitions", "900", "--retention-hours", "2"]).0, "");
    let (all, document) =
        exceeded(&["size", "--mb-per-second", "90", "--partitions", "1001", "--retention-hours", "2000"]);
    assert_eq!(all, "throughput partitions storage");
    assert_eq!((&document["wanted"]["brokers"], &document["partitions"]["per_broker"]), (&json!(6), &json!(1001)));
    let left = place.run(&["size", "--mb-per-second", "90"]);
    assert!(left.stdout.contains("more than recommended; 6 brokers"), "{}", left.stdout);
    assert_eq!(left.exit, Exit::No);

    assert_eq!(place.refused(&["size", "--brokers", "2"]), (Exit::Usage, "size.replication".to_owned()));
    assert_eq!(place.refused(&["size", "--instance", "m9.huge"]), (Exit::Usage, "size.instance".to_owned()));
    let own = ["size", "--instance", "m9.huge", "--ebs-mb-per-second", "100", "--network-mb-per-second", "1000"];
    assert_eq!(place.done(&own)["recommended_mb_per_s"], 80.0);
}
