//! What is said of Kafka's client settings, of a function's address and of one's own, before anything is asked.

use super::planning::{employee, project};
use super::*;

#[test]
fn client_settings_are_looked_at_too() {
    let place = project(&[("employee", &employee(""))]);
    let toml = "[env.local]\ndir = \"dir\"\nkafka = { bootstrap_servers = \"b:9092\", command_config = \"client.properties\" }\n";
    place.write("frazil.toml", toml);
    assert_eq!(place.check(&[]).1, ["frazil.toml:3:58 client"]);
    place.write("client.properties", "\nsecurity.protocol=SASL_SSL\n");
    assert_eq!(place.check(&[]).1, ["client.properties:2:1 client"]);
    place.write("client.properties", "client.id=x\ninterceptor.classes=a.B\nclient.idd=y\n");
    assert_eq!(place.check(&[]).1, ["client.properties:2:1 client", "client.properties:3:1 client"]);
    place.write("client.properties", "client.id=x\n");
    assert_eq!(place.check(&[]), (Exit::Done, Vec::new()));
    // No broker is named, in neither file.
    place.write("frazil.toml", "[env.local]\ndir = \"dir\"\nkafka = { command_config = \"client.properties\" }\n");
    assert_eq!(place.check(&[]).1, ["frazil.toml:3:1 client"]);
}

#[test]
fn a_functions_address_and_ones_own_are_looked_at_before_anything_is_asked() {
    let place = project(&[("employee", &employee(""))]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    let url = "http://127.0.0.1:1/2015-03-31/functions/f/invocations";
    for (flags, code) in [
        (&["--invoke", "http://ann:geheim@h/functions/f/invocations"][..], "invoke.url"),
        (&["--invoke", "http://127.0.0.1:9000"], "invoke.url"),
        (&["--invoke-timeout", "5s"], "usage"),
        (&["--invoke", url, "--invoke-timeout", "0s"], "usage"),
        (&["--listen", &taken], "listen.address"),
        (&["--listen", "8080"], "listen.address"),
    ] {
        let (exit, document) = place.answer(&[&["run", "-b", "127.0.0.1:1"], flags].concat());
        assert_eq!((exit, &document["error"]["code"]), (Exit::Usage, &json!(code)), "{document}");
        assert!(!document.to_string().contains("geheim") && document["error"]["remedy"].is_string(), "{document}");
    }
}

#[test]
fn client_settings_without_effect_are_said_and_taken() {
    let place = Place::new();
    place.write("client.properties", "bootstrap.servers=x:1\nsasl.password=geheim\nssl.keystore.password=geheim\n");
    let arguments = ["produce", "--topic", "t", "--dry-run", "-b", "b:9092", "--command-config", "client.properties"];
    let left = place.run(&arguments);
    assert_eq!(left.exit, Exit::Done, "{}", left.stderr);
    for name in ["client.properties:1: `bootstrap.servers`", "`sasl.password`", "`ssl.keystore.password`"] {
        assert!(left.stderr.contains(name), "{name}: {}", left.stderr);
    }
    assert!(!left.stderr.contains("geheim"), "{}", left.stderr);
    let left = place.run(&["produce", "--topic", "t", "--dry-run", "-b", "ann:geheim@b:9092"]);
    assert_eq!(left.exit, Exit::Usage);
    assert!(!left.stderr.contains("geheim") && left.stderr.contains('@'), "{}", left.stderr);
}

#[test]
fn the_cluster_is_the_environments_where_no_other_is_named() {
    let place = project(&[("employee", &employee(""))]);
    let produce =
        |place: &Place, flags: &[&str]| place.answer(&[&["produce", "--topic", "t", "--dry-run"], flags].concat());
    let (exit, refused) = produce(&place, &[]);
    assert_eq!((exit, &refused["error"]["code"]), (Exit::Usage, &json!("kafka.settings")));
    assert_eq!(produce(&place, &["-b", "b:9092"]).0, Exit::Done);
    place.write("frazil.toml", "[env.local]\ndir = \"dir\"\nkafka = { bootstrap_servers = \"b:9092\" }\n");
    assert_eq!(produce(&place, &[]).0, Exit::Done);
    // The block's client settings are the block's cluster's.
    let toml = "[env.local]\ndir = \"dir\"\nkafka = { bootstrap_servers = \"b:9092\", command_config = \"sub/c.properties\" }\n";
    place.write("frazil.toml", toml);
    assert_eq!(produce(&place, &[]).1["error"]["code"], "kafka.settings");
    assert_eq!(produce(&place, &["-b", "other:9092"]).0, Exit::Done);
    assert_eq!(produce(&place, &["--command-property", "bootstrap.servers=other:9092"]).0, Exit::Done);
    place.write("sub/c.properties", "client.idd=x\n");
    let message = produce(&place, &[]).1["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("c.properties:1"), "{message}");
    place.write("sub/c.properties", "client.id=x\n");
    assert_eq!(produce(&place, &[]).0, Exit::Done);
    let (exit, refused) = place.answer(&["run", "--env", "local", "--batch", "0"]);
    assert_eq!((exit, refused["error"]["code"].as_str()), (Exit::Usage, Some("usage")));
    place.write("frazil.toml", "[env.local]\ndir = \"dir\"\nmapping = { retries = 1, pollers = [1, 1] }\n");
    let (exit, refused) = place.answer(&["run"]);
    assert_eq!((exit, &refused["error"]["code"]), (Exit::Usage, &json!("run.mapping")));
}
