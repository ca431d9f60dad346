use super::*;

fn read(text: &str, properties: &[&str]) -> Result<Settings, Faults> {
    let properties: Vec<String> = properties.iter().map(|p| (*p).to_owned()).collect();
    Settings::read(&Given {
        bootstrap_servers: Some("b:9092"),
        file: Some(("client.properties", text)),
        properties: &properties,
    })
}

fn consumer(text: &str, properties: &[&str]) -> BTreeMap<String, String> {
    let settings = read(text, properties).unwrap();
    settings.for_consumer().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn javas_lines_become_librdkafkas() {
    let scram = "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n\
        sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username=\"ann\" password=\"p=w;d\";\n\
        ssl.truststore.location=/ca.pem\nssl.truststore.type=PEM\nssl.endpoint.identification.algorithm=\n\
        request.timeout.ms=5000\nfetch.max.wait.ms=100\nacks=all\n";
    let wanted = map(&[
        ("bootstrap.servers", "b:9092"),
        ("fetch.wait.max.ms", "100"),
        ("sasl.mechanism", "SCRAM-SHA-512"),
        ("sasl.password", "p=w;d"),
        ("sasl.username", "ann"),
        ("security.protocol", "SASL_SSL"),
        ("socket.timeout.ms", "5000"),
        ("ssl.ca.location", "/ca.pem"),
        ("ssl.endpoint.identification.algorithm", "none"),
    ]);
    assert_eq!(consumer(scram, &[]), wanted);
    let producer = read(scram, &[]).unwrap();
    let producer: BTreeMap<_, _> = producer.for_producer().collect();
    assert!(producer.get("acks") == Some(&"all") && !producer.contains_key("fetch.wait.max.ms"));

    let mtls =
        "security.protocol = ssl\nssl.keystore.type=PKCS12\nssl.keystore.location=/k.p12\nssl.keystore.password=x\n";
    assert_eq!(
        consumer(mtls, &["ssl.truststore.certificates=-----BEGIN", "client.id=me"]),
        map(&[
            ("bootstrap.servers", "b:9092"),
            ("client.id", "me"),
            ("security.protocol", "SSL"),
            ("ssl.ca.pem", "-----BEGIN"),
            ("ssl.keystore.location", "/k.p12"),
            ("ssl.keystore.password", "x"),
        ])
    );
    for text in ["security.protocol=SSL", "security.protocol=SASL_SSL\nsasl.username=a\nsasl.password=b"] {
        assert_eq!(consumer(text, &[])["ssl.ca.location"], "probe", "{text}");
    }
    for text in ["", "security.protocol=PLAINTEXT", "security.protocol=SSL\nssl.ca.pem=x"] {
        assert!(!consumer(text, &[]).contains_key("ssl.ca.location"), "{text}");
    }
    assert_eq!(consumer("security.protocol=SSL\nssl.ca.location=/ca", &[])["ssl.ca.location"], "/ca");
    let pem = consumer("ssl.keystore.type=PEM\nssl.keystore.location=/k.pem\nssl.key.password=x", &[]);
    assert_eq!(
        (&*pem["ssl.certificate.location"], &*pem["ssl.key.location"], &*pem["ssl.key.password"]),
        ("/k.pem", "/k.pem", "x")
    );
}

#[test]
fn msk_iam_is_a_bearer_token_whose_signer_is_told_what_the_module_was() {
    let iam = "security.protocol=SASL_SSL\nsasl.mechanism=AWS_MSK_IAM\n\
        sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler\n\
        sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required";
    let bearer = "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n\
        sasl.login.callback.handler.class=software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler\n\
        sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler\n\
        sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required";
    let check = |text: &str, options: &str, expected: MskIam| {
        let text = format!("{text} {options};\n");
        assert_eq!(read(&text, &[]).unwrap().login(), &Login::MskIam(expected), "{text}");
        assert_eq!(consumer(&text, &[])["sasl.mechanism"], "OAUTHBEARER");
    };
    let some = |text: &str| Some(text.to_owned());
    check(iam, "", MskIam::default());
    check(iam, "awsProfileName=\"dev\" awsDebugCreds=true", MskIam { profile: some("dev"), ..MskIam::default() });
    check(
        iam,
        "awsRoleArn=\"arn:aws:iam::1:role/r\" awsRoleSessionName=\"s\" awsRoleExternalId=x awsStsRegion=\"eu-west-1\"",
        MskIam {
            profile: None,
            role_arn: some("arn:aws:iam::1:role/r"),
            role_session_name: some("s"),
            role_external_id: some("x"),
            sts_region: some("eu-west-1"),
        },
    );
    check(bearer, "", MskIam::default());
    check(bearer, "awsProfileName=dev", MskIam { profile: some("dev"), ..MskIam::default() });
    let said = read(&format!("{iam};").replace("SASL_SSL", "SASL_PLAINTEXT"), &[]).unwrap_err().to_string();
    assert!(said.contains("set `security.protocol` to SASL_SSL"), "{said}");
    let said = read("sasl.client.callback.handler.class=x.IAMClientCallbackHandler", &[]).unwrap_err().to_string();
    assert!(said.contains("sasl.client.callback.handler.class"), "{said}");
    let said = read(&format!("{iam} awsRoleSecretAccessKey=\"geheim\";"), &[]).unwrap_err().to_string();
    assert!(said.contains("awsRoleSecretAccessKey") && !said.contains("geheim"), "{said}");
}

#[test]
fn the_command_line_wins() {
    let settings = read("bootstrap.servers=x:1\nclient.id=a", &["client.id=b", "client.id=c"]).unwrap();
    assert_eq!((settings.bootstrap_servers(), &*settings.both["client.id"]), ("b:9092", "c"));
    let file = Given { file: Some(("f", "bootstrap.servers=x:1")), ..Given::default() };
    assert_eq!(Settings::read(&file).unwrap().bootstrap_servers(), "x:1");
    let none = Settings::read(&Given::default()).unwrap_err();
    assert_eq!(none.0[0].place, "bootstrap.servers");
}

#[test]
fn what_other_lines_leave_without_effect_is_said_by_name() {
    let check = |text: &str, servers: Option<&str>, expected: &[(&str, &str)]| {
        let given = Given { bootstrap_servers: servers, file: Some(("f", text)), ..Given::default() };
        let settings = Settings::read(&given).unwrap();
        let said: Vec<&str> = settings.without_effect().iter().map(String::as_str).collect();
        assert_eq!(said.len(), expected.len(), "{said:?}");
        for (line, (place, key)) in said.iter().zip(expected) {
            assert!(line.starts_with(&format!("{place}: `{key}` has no effect")), "{said:?}");
            assert!(!line.contains("geheim"), "{said:?}");
        }
    };
    let secrets = "ssl.keystore.location=/k.p12\nssl.keystore.type=PKCS12\nssl.keystore.password=geheim\n\
        sasl.username=ann\nsasl.password=geheim\n";
    check(
        secrets,
        Some("b:9092"),
        &[
            ("f:5", "sasl.password"),
            ("f:4", "sasl.username"),
            ("f:1", "ssl.keystore.location"),
            ("f:3", "ssl.keystore.password"),
            ("f:2", "ssl.keystore.type"),
        ],
    );
    check("security.protocol=SSL\nsasl.password=geheim\nssl.ca.pem=x", Some("b:1"), &[("f:2", "sasl.password")]);
    check(
        "security.protocol=SASL_PLAINTEXT\nsasl.username=a\nsasl.password=geheim\nssl.ca.pem=x",
        Some("b:1"),
        &[("f:4", "ssl.ca.pem")],
    );
    check("bootstrap.servers=x:1", Some("b:1"), &[("f:1", "bootstrap.servers")]);
    check("bootstrap.servers=x:1", None, &[]);
}

#[test]
fn a_broker_with_a_password_before_it_is_refused_and_not_repeated() {
    let flag = Given { bootstrap_servers: Some("ann:geheim@b:9092"), ..Given::default() };
    let file = Given { file: Some(("f", "\nbootstrap.servers=b:1,ann:geheim@b:2")), ..Given::default() };
    for (given, place) in [(flag, "--bootstrap-server"), (file, "f:2")] {
        let faults = Settings::read(&given).unwrap_err();
        assert_eq!((faults.0.len(), faults.0[0].place.as_str()), (1, place));
        assert!(!faults.to_string().contains("geheim"), "{faults}");
    }
}

#[test]
fn a_fault_stands_at_the_line_to_blame() {
    for (text, place) in [
        ("\nsecurity.protocol=SASL_SSL", "client.properties:2"),
        ("security.protocol=SASL_SSL\n\nsasl.mechanism=PLAIN", "client.properties:3"),
        ("a=b\n\nclient.id=\\u12", "client.properties:3"),
        (
            "security.protocol=SASL_SSL\nsasl.jaas.config=x.PlainLoginModule required username=\"a\";",
            "client.properties:2",
        ),
        ("\nsasl.mechanism=AWS_MSK_IAM\nsecurity.protocol=SASL_PLAINTEXT", "client.properties:3"),
    ] {
        let faults = read(text, &[]).unwrap_err();
        assert_eq!(faults.0[0].place, place, "{faults}");
    }
}

#[test]
fn every_line_without_effect_is_refused_by_name_and_all_at_once() {
    let text = "security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\nssl.truststore.location=/t.jks\nssl.truststore.password=geheim\n\
        ssl.keystore.location=/k.jks\nkey.deserializer=org.X\nmax.poll.records=5\nclinet.id=x\nsomething.else=y\n\
        sasl.login.callback.handler.class=org.Y\nsasl.oauthbearer.token.endpoint.url=https://x\nenable.auto.commit=true\n";
    let faults = read(text, &["=secret"]).unwrap_err();
    let said = faults.to_string();
    for name in [
        "GSSAPI",
        "client.properties:3",
        "PEM",
        "PKCS12",
        "key.deserializer",
        "--batch",
        "did you mean `client.id`",
        "something.else",
        "sasl.login.callback.handler.class",
        "sasl.oauthbearer.token.endpoint.url",
        "keytool -list -rfc -keystore '/t.jks'",
        "enable.auto.commit",
        "KEY=VALUE",
    ] {
        assert!(said.contains(name), "{name}: {said}");
    }
    assert!(!said.contains("geheim") && !said.contains("secret"), "{said}");
    assert_eq!(faults.0.len(), 11, "{said}");
}

#[test]
fn half_a_login_is_a_fault() {
    let login = |mechanism: &str, entry: &str| {
        read(
            "security.protocol=SASL_SSL",
            &[&format!("sasl.mechanism={mechanism}"), &format!("sasl.jaas.config={entry}")],
        )
    };
    for (mechanism, entry, wanted) in [
        ("PLAIN", "x.PlainLoginModule required username=\"a\";", "names no password"),
        ("PLAIN", "x.ScramLoginModule required username=\"a\" password=\"geheim\";", "PlainLoginModule"),
        (
            "SCRAM-SHA-256",
            "x.ScramLoginModule required username=\"a\" password=\"geheim\" tokenauth=true;",
            "tokenauth",
        ),
        ("SCRAM-SHA-256", "x.ScramLoginModule required username=\"a\" password=\"geheim\"", "end with"),
        ("SCRAM-SHA-1", "x.ScramLoginModule required username=\"a\" password=\"geheim\";", "there is no mechanism"),
        ("OAUTHBEARER", "x.OAuthBearerLoginModule required;", "OAUTHBEARER"),
        ("AWS_MSK_IAM", "x.PlainLoginModule required;", "IAMLoginModule"),
    ] {
        let said = login(mechanism, entry).unwrap_err().to_string();
        assert!(said.contains(wanted) && !said.contains("geheim"), "{said}");
    }
    assert!(
        read("sasl.mechanism=PLAIN\nsasl.jaas.config=x.PlainLoginModule required username=\"a\" password=\"b\";", &[])
            .is_err()
    );
    assert!(read("security.protocol=SASL_SSL", &[]).is_err());
    assert!(
        !format!("{:?}", login("PLAIN", "x.PlainLoginModule required username=\"a\" password=\"geheim\";"))
            .contains("geheim")
    );
}

#[test]
fn every_setting_is_one_that_the_client_takes() {
    let text = "client.id=a\nclient.rack=r\nclient.dns.lookup=use_all_dns_ips\nconnections.max.idle.ms=1000\nmetadata.max.age.ms=1000\n\
        reconnect.backoff.ms=1\nreconnect.backoff.max.ms=2\nrequest.timeout.ms=1000\nretry.backoff.ms=1\nretry.backoff.max.ms=2\n\
        socket.connection.setup.timeout.ms=1000\nreceive.buffer.bytes=65536\nsend.buffer.bytes=65536\ngroup.id=g\n\
        isolation.level=read_uncommitted\ncheck.crcs=true\nfetch.min.bytes=1\nfetch.max.bytes=1048576\nfetch.max.wait.ms=10\n\
        max.partition.fetch.bytes=65536\nacks=all\nbatch.size=1000\ncompression.type=zstd\ndelivery.timeout.ms=1000\n\
        enable.idempotence=false\nlinger.ms=1\nmax.in.flight.requests.per.connection=1\nmax.request.size=2000000\nretries=1\n\
        enable.ssl.certificate.verification=true\nbroker.address.family=v4\nsocket.keepalive.enable=true\n\
        queued.max.messages.kbytes=1024\nqueue.buffering.max.kbytes=1024\ncompression.level=1\n";
    let settings = read(text, &[]).unwrap();
    drop(crate::Consumer::new(&settings, "g", 1 << 20, None).unwrap());
    drop(crate::Producer::new(&settings, None).unwrap());
}
