use super::*;

use crate::schema::tests::of_environments;

fn faults(text: &str) -> Vec<String> {
    parse(text, Path::new("frazil.toml")).unwrap_err().iter().map(Fault::to_string).collect()
}

#[test]
fn without_a_file_local_is_embedded_beside_where_one_stands() {
    let temp = tempfile::tempdir().unwrap();
    let local = load(temp.path(), None).unwrap();
    let dir = temp.path().join(".frazil");
    assert_eq!(local, Environment::embedded(&dir));
    assert_eq!(local.store.to_string(), format!("file://{}", dir.display()));
    assert_eq!(local.warehouse.as_ref().unwrap().to_string(), format!("file://{}/warehouse", dir.display()));
    assert_eq!(local.catalog, Catalog::Sqlite(dir.join("catalog.db")));
    assert_eq!(local.pipeline_folders(temp.path()), [temp.path().join("pipelines"), dir.join("pipelines")]);
    assert!(matches!(load(temp.path(), Some("prod")), Err(Error::UnknownEnvironment { .. })));
}

#[test]
fn the_file_is_found_upward_and_its_paths_are_relative_to_it() {
    let temp = tempfile::tempdir().unwrap();
    let below = temp.path().join("a/b");
    std::fs::create_dir_all(&below).unwrap();
    let text = "[env.local]\ndir = \"data\"\nvars = { db = \"bigdata\", prefix = \"\" }\n";
    std::fs::write(temp.path().join(FILE), text).unwrap();
    let local = load(&below, None).unwrap();
    assert_eq!(local.root.as_deref(), Some(temp.path()));
    assert_eq!(local.dir, Some(temp.path().join("data")));
    assert_eq!(local.vars["db"], "bigdata");
    assert_eq!(local.vars["prefix"], "");
    assert_eq!(local.pipeline_folders(&below)[0], temp.path().join("pipelines"));
    let error = load(&below, Some("locl")).unwrap_err();
    assert!(error.to_string().contains("did you mean `local`?"), "{error}");
}

#[test]
fn places_are_said_one_by_one() {
    let text = "[env.box]\nstore = \"file:///data/frazil\"\ncatalog = \"sqlite:tables.db\"\nwarehouse = \"file:///data/lake\"\n";
    let environments = parse(text, Path::new("/project/frazil.toml")).unwrap();
    assert_eq!(environments.names(), ["box", "local"]);
    let found = environments.get(Some("box")).unwrap();
    assert_eq!(found.dir, None);
    assert_eq!(found.store, Location::File("/data/frazil".into()));
    assert_eq!(found.catalog, Catalog::Sqlite("/project/tables.db".into()));
    assert_eq!(found.warehouse, Some(Location::File("/data/lake".into())));
    assert_eq!(environments.get(None).unwrap().dir, Some("/project/.frazil".into()));
}

#[test]
fn places_are_plain_for_locations_are_compared_as_text() {
    let check = |written: &str, expected: &str| {
        let text = format!("[env.local]\ndir = \"{written}\"");
        let local = parse(&text, Path::new("/a/project/frazil.toml")).unwrap().get(None).unwrap();
        assert_eq!(local.warehouse.unwrap().to_string(), format!("file://{expected}/warehouse"), "{written}");
    };
    check(".", "/a/project");
    check("./x/./y/", "/a/project/x/y");
    check("../data", "/a/data");
    check("../../../../data", "/data");
    check("/b/../c", "/c");
}

#[test]
fn what_is_not_of_this_version_is_refused_where_it_is_used() {
    let text = r#"
[env.local]
dir = ".frazil"

[env.prod]
store     = "s3://acme-frazil"
catalog   = "sqlite:catalog.db"
warehouse = "s3://acme-lake/warehouse"
region    = "eu-west-1"
kafka     = { bootstrap_servers = "b-1:9098", command_config = "client.properties" }
pii_salt  = "secretsmanager:frazil-salt"
mapping   = { batch = 10000, window = "5s", start = "TRIM_HORIZON", pollers = [1, 20], partial_answers = false, auth = "x", destination = "x", retries = 1, max_age = "1h", bisect = true, filter = [], registry = "main" }
vars      = { db = "bigdata" }
spark     = { application = "00f", role = "arn", above = "64GiB" }

[env.prod.registries.main]
kind = "glue"
registry_name = "employee-schema-registry"
assume_role = "arn"
external_id = "x"
[env.prod.registries.old]
kind = "confluent"
url  = "https://registry"
secret = "secretsmanager:sr-auth"

[env.stage]
dir = "stage"
pii_salt = "ssm:salt"
"#;
    let environments = parse(text, Path::new("frazil.toml")).unwrap();
    environments.get(None).unwrap();
    let refused = |name: &str| -> Vec<(usize, String)> {
        let error = environments.get(Some(name)).unwrap_err();
        error
            .faults()
            .iter()
            .map(|f| {
                assert_eq!(f.code, code::NOT_YET);
                (f.line, f.message.split('`').nth(1).unwrap().to_owned())
            })
            .collect()
    };
    let expected = [
        (9, "region"),
        (11, "pii_salt = \"secretsmanager:…\""),
        (12, "auth"),
        (12, "destination"),
        (14, "spark"),
        (24, "secret = \"secretsmanager:…\""),
    ];
    assert_eq!(refused("prod"), expected.map(|(line, text)| (line, text.to_owned())));
    assert_eq!(refused("stage"), [(28, "pii_salt = \"ssm:…\"".to_owned())]);
}

#[test]
fn a_catalog_that_gives_places_takes_no_warehouse() {
    const LAKE: &str = "arn:aws:s3tables:eu-west-1:111122223333:bucket/lake";
    let catalog = Catalog::S3Tables { bucket_arn: LAKE.to_owned(), region: "eu-west-1".to_owned() };
    let text = format!(
        "[env.a]\nstore = \"s3://acme/f\"\ncatalog = \"s3tables:{LAKE}\"\n[env.b]\ndir = \"b\"\ncatalog = \"s3tables:{LAKE}\""
    );
    let environments = parse(&text, Path::new("/project/frazil.toml")).unwrap();
    for name in ["a", "b"] {
        let found = environments.get(Some(name)).unwrap();
        assert_eq!((found.catalog, found.warehouse), (catalog.clone(), None), "{name}");
    }
    let refused = |keys: &str, words: &[&str]| {
        let found = faults(&format!("[env.a]\n{keys}"));
        assert_eq!(found.len(), words.len(), "{keys}: {found:?}");
        assert!(found.iter().zip(words).all(|(fault, words)| fault.contains(words)), "{keys}: {found:?}");
    };
    let said = format!("catalog = \"s3tables:{LAKE}\"");
    refused(&said, &["needs `dir`, or `store` beside its catalog in S3 Tables"]);
    refused(&format!("{said}\ndir = \"x\"\nwarehouse = \"s3://acme/w\""), &["leave `warehouse` out"]);
    refused("dir = \"x\"\ncatalog = \"s3tables:lake\"", &["names a table bucket by its ARN"]);
    refused("dir = \"x\"\ncatalog = \"s3tables\"", &["names a table bucket by its ARN"]);
}

#[test]
fn a_place_may_be_a_bucket() {
    let check = |written: &str, bucket: &str, prefix: &str, shown: &str| {
        let text = format!("[env.local]\ndir = \"x\"\nstore = {written:?}");
        let local = parse(&text, Path::new("/project/frazil.toml")).unwrap().get(None).unwrap();
        assert_eq!(local.store, Location::S3 { bucket: bucket.to_owned(), prefix: prefix.to_owned() });
        assert_eq!(local.store.to_string(), shown);
        assert_eq!(local.warehouse.unwrap().to_string(), "file:///project/x/warehouse");
    };
    check("s3://acme-frazil", "acme-frazil", "", "s3://acme-frazil");
    check("s3://acme-frazil/", "acme-frazil", "", "s3://acme-frazil");
    check("s3://acme.frazil/a/b c/", "acme.frazil", "a/b c", "s3://acme.frazil/a/b c");
    let refused = |store: &str, warehouse: &str, why: &str| {
        let text = format!("[env.a]\ncatalog = \"sqlite:c\"\nstore = {store:?}\nwarehouse = {warehouse:?}");
        let found = faults(&text);
        assert!(found.len() == 1 && found[0].contains(why), "{store} {warehouse}: {found:?}");
    };
    let lake = "s3://acme-lake/w";
    for name in
        ["s3://", "s3://ab", "s3://Acme-Frazil", "s3:///key", "s3://acme_frazil", &format!("s3://{}", "x".repeat(64))]
    {
        refused(name, lake, "3 to 63");
    }
    refused("s3://acme--use1-az4--x-s3", lake, "directory bucket");
    for prefix in ["a//b", "/a", ".", "a/..", "a//"] {
        refused(&format!("s3://acme/{prefix}"), lake, "empty segment");
    }
    for prefix in ["a?b", "a#", "a\\b", "a\tb"] {
        refused(&format!("s3://acme/{prefix}"), lake, "control character");
    }
    refused(&format!("s3://acme/{}", "x".repeat(257)), lake, "too long");
    refused("s3://acme/w/s", "s3://acme/w", "must lie apart");
    refused("s3://acme", "s3://acme/staging/w", "must lie apart");
    refused("s3://acme", "s3://acme", "the warehouse s3://acme and");
    // A bucket and a folder of the same name are two places; so are two buckets.
    for (store, warehouse) in
        [("s3://acme/w/s", "file:///acme/w"), ("s3://acme/w/s", "s3://acme2/w"), ("s3://acme", "s3://acme/w")]
    {
        let text = format!("[env.a]\ncatalog = \"sqlite:c\"\nstore = {store:?}\nwarehouse = {warehouse:?}");
        parse(&text, Path::new("frazil.toml")).unwrap().get(Some("a")).unwrap();
    }
}

#[test]
fn a_secret_is_referred_to_and_never_repeated() {
    let salt = |written: &str| {
        let environments = parse(&format!("[env.local]\ndir = \"x\"\npii_salt = {written}"), Path::new("frazil.toml"));
        environments.map(|environments| environments.get(None).map(|local| local.pii_salt))
    };
    let env = |name: &str| SecretReference::Env(name.to_owned());
    assert_eq!(salt("\"env:PII_SALT2\"").unwrap().unwrap(), Some(env("PII_SALT2")));
    assert_eq!(salt("\"ssm:/frazil/salt\"").unwrap().unwrap_err().code(), code::NOT_YET);
    for literal in ["\"hunter2\"", "\"env:\"", "\"env:hunter2 x\"", "\"env:2hunter2\"", "\"envv:hunter2\""] {
        let faults = salt(literal).unwrap_err();
        assert_eq!((faults.len(), faults[0].line, faults[0].column, faults[0].code), (1, 3, 12, code::INVALID));
        assert!(!faults[0].message.contains("hunter2"), "{}", faults[0]);
    }
}

#[test]
fn faults_say_where() {
    let check = |text: &str, expected: &[&str]| {
        let found = faults(text);
        assert_eq!(found.len(), expected.len(), "{text}\n{found:#?}");
        for (found, expected) in found.iter().zip(expected) {
            let (place, part) = expected.split_once(' ').unwrap();
            assert!(
                found.starts_with(&format!("frazil.toml:{place}: ")) && found.contains(part),
                "{found} is not {expected}"
            );
        }
    };
    check("[evn.local]\ndir = \"x\"", &["1:2 did you mean `env`"]);
    check("dir = \"x\"", &["1:1 unknown key `dir`"]);
    check(
        "[env.prod]\nregoin = \"x\"\ndir = 3",
        &["2:1 did you mean `region`", "3:7 takes a string, found a whole number"],
    );
    // A misspelling is one wherever it stands; the same block may hold what is not of this version.
    check("[env.prod]\ndir = \"x\"\nkafka = { bootstrap = \"b\" }", &["3:11 unknown key `bootstrap`"]);
    check(
        "[env.prod.registries.main]\nknid = \"glue\"",
        &["1:6 needs `dir`", "1:22 needs `kind`", "2:1 did you mean `kind`"],
    );
    check("[env.prod]\nstore = \"file:///x\"", &["1:6 needs `dir`, or all of"]);
    check("[env.local]\nstore = \"file:///x\"", &["1:6 needs `dir`, or all of"]);
    check("[env.a]\ndir = \"\"", &["2:7 write \".\""]);
    check(
        "[env.a]\ndir = \"x\"\nstore = \"file://x\"\nwarehouse = \"/x\"",
        &["3:9 absolute folder", "4:13 it takes a URL"],
    );
    check("[env.a]\ndir = \"x\"\ncatalog = \"sqlit:x\"", &["3:11 did you mean `sqlite`"]);
    check("[env.a]\ndir = \"x\"\ncatalog = \"sqlite:\"", &["3:11 names a file"]);
    check("[env.a]\ndir = \"x\"\ncatalog = \"glue\"", &["3:11 not a folder"]);
    check("[env.a]\ndir = \"x\"\ncatalog = \"glue:EU\"\nwarehouse = \"s3://bucket/w\"", &["3:11 names a region"]);
    check(
        "[env.a]\ndir = \"x\"\nvars = { db = 1, \"a b\" = \"x\" }",
        &["3:15 takes a string", "3:18 cannot name a variable"],
    );
    check(
        "[env.a]\ncatalog = \"sqlite:c\"\nstore = \"file:///d\"\nwarehouse = \"file:///d/staging/w\"",
        &["4:13 must lie apart"],
    );
    check(
        "[env.a]\ncatalog = \"sqlite:c\"\nstore = \"file:///d/w/s\"\nwarehouse = \"file:///d/w\"",
        &["4:13 must lie apart"],
    );
    check("[env.a]\ndir = \"x\"\ndir = \"y\"\nx = 1", &["3:1 `dir` is there twice", "4:1 unknown key `x`"]);
    check("[env.a\ndir = \"x\"", &["1:7 unclosed table"]);
    check("env = 3", &["1:7 `env` takes a table"]);
}

#[test]
fn a_cluster_and_how_its_records_are_handed_over() {
    let text = r#"
[env.local]
dir     = "x"
kafka   = { bootstrap_servers = "b-1:9098, [::1]:9098", command_config = "client.properties" }
mapping = { batch = 500, window = "0s", start = 2026-11-01T00:00:00Z, pollers = [2, 20], partial_answers = true, retries = 3, max_age = "1h", bisect = true, filter = ['{"value":{"a":[1]}}'] }
[env.plain]
dir     = "y"
kafka   = { command_config = "/etc/client.properties" }
mapping = { start = "LATEST", retries = -1, filter = [], pollers = [1, 1] }
"#;
    let environments = parse(text, Path::new("/project/frazil.toml")).unwrap();
    assert_eq!(of_environments(text), Vec::<String>::new());
    let local = environments.get(None).unwrap();
    let kafka = local.kafka.unwrap();
    assert_eq!(kafka.bootstrap_servers.as_deref(), Some("b-1:9098, [::1]:9098"));
    assert_eq!(kafka.command_config.as_deref(), Some(Path::new("/project/client.properties")));
    assert_eq!(
        local.mapping,
        Mapping {
            batch: Some(500),
            window_seconds: Some(0),
            start: Some(Start::At(1_793_491_200_000)),
            pollers: Some((2, 20)),
            partial_answers: true,
            retries: Some(3),
            max_age_seconds: Some(3600),
            bisect: true,
            filter: vec![r#"{"value":{"a":[1]}}"#.to_owned()],
            registry: None,
            record_format: RecordFormat::Source,
        }
    );
    assert_eq!(local.mapping.skips(), ["retries", "max_age", "bisect", "filter"]);
    let plain = environments.get(Some("plain")).unwrap();
    assert_eq!(plain.kafka.unwrap().command_config.as_deref(), Some(Path::new("/etc/client.properties")));
    assert_eq!(plain.mapping.start, Some(Start::Latest));
    // What Lambda does anyway skips nothing.
    assert_eq!(plain.mapping.skips(), Vec::<&str>::new());
}

#[test]
fn a_mapping_that_lambda_would_not_take_is_refused_setting_by_setting() {
    let check = |block: &str, expected: &[&str]| {
        let text = format!("[env.a]\ndir = \"x\"\n{block}");
        let found = faults(&text);
        let all = found.len() == expected.len() && found.iter().zip(expected).all(|(f, part)| f.contains(part));
        assert!(all, "{block}: {found:#?}");
    };
    assert!(!of_environments("[env.a]\ndir = \"x\"\nmapping = { batch = 0 }").is_empty());
    check("kafka = {}", &["needs `bootstrap_servers`, or"]);
    for servers in ["b-1", "b-1:", ":9092", "b-1:9092,", "b-1:0", "b-1:70000", "http://b-1:9092", "user@b-1:9092"] {
        check(&format!("kafka = {{ bootstrap_servers = {servers:?} }}"), &["\"host:port\""]);
    }
    check(
        "kafka = { bootstrap_servers = [\"b:1\"], command_config = \"\" }",
        &["takes a string", "is a properties file"],
    );
    check(
        "mapping = { batch = 0, window = \"301s\", start = \"now\", pollers = [0, 1], retries = -2, max_age = \"59s\" }",
        &["1 to 10000", "\"0s\" to \"300s\"", "TRIM_HORIZON", "1 to 200", "-1 to 10000", "\"60s\" to"],
    );
    check("mapping = { window = \"500ms\" }", &["whole seconds"]);
    check("mapping = { start = 2026-11-01 }", &["or a time such as"]);
    for pollers in ["[1]", "[1, 2, 3]", "[3, 2]", "[1, 2001]", "[\"1\", 2]"] {
        check(&format!("mapping = {{ pollers = {pollers} }}"), &["the least and the greatest"]);
    }
    check("mapping = { pollers = 3 }", &["takes two whole numbers"]);
    check(
        "mapping = { partial_answers = true, retries = 1, bisect = true }",
        &["`partial_answers` takes a mapping in provisioned", "`retries` takes", "`bisect` takes"],
    );
    check("mapping = { filter = [\"x\", \"[1]\"] }", &["JSON object", "JSON object"]);
    check("mapping = { registry = \"main\", pollers = [1, 2] }", &["no registry \"main\""]);
    check("mapping = { record_format = \"JSON\" }", &["with a `registry` hands over"]);
}

#[test]
fn an_environment_is_known_as_far_as_it_can_be_read() {
    let text = "[env.a]\nstore = \"s3://x\"\nvars = { db = \"d\" }\nregion = \"eu\"\n[env.b]\ndir = \"b\"\nx = 1";
    let (environments, faults) = examine(text, Path::new("/project/frazil.toml"));
    assert_eq!(faults.iter().map(|f| f.line).collect::<Vec<_>>(), [1, 2, 7]);
    let (a, later) = environments.sketch(Some("a")).unwrap();
    assert_eq!((a.vars["db"].as_str(), later.len()), ("d", 1));
    assert!(environments.sketch(Some("b")).unwrap().1.is_empty());
    assert!(matches!(environments.sketch(Some("c")), Err(Error::UnknownEnvironment { .. })));
}
