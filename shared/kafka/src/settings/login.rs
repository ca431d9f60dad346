//! How a client shows who it is by SASL: mechanism, module, user and password.

use super::{Line, Login, MskIam, Reading};
use crate::jaas;

/// Keys that name the classes which a Java client logs in by.
const HANDLERS: [&str; 2] = ["sasl.client.callback.handler.class", "sasl.login.callback.handler.class"];
/// Those of Amazon's library that ask for AWS credentials, which are asked for here, too.
const IAM_HANDLERS: [&str; 2] = [".IAMClientCallbackHandler", ".IAMOAuthBearerLoginCallbackHandler"];

impl Reading {
    /// Mechanism and credentials.
    pub(super) fn login(&mut self) {
        let protocol = self.take("security.protocol");
        let mechanism = self.take("sasl.mechanism");
        let entry = self.take("sasl.jaas.config");
        let handlers = HANDLERS.map(|name| self.take(name));
        let mut is_sasl = false;
        if let Some(Line { place, value }) = protocol {
            let name = value.trim().to_ascii_uppercase();
            match name.as_str() {
                "PLAINTEXT" | "SSL" => self.set("security.protocol", name),
                "SASL_PLAINTEXT" | "SASL_SSL" => {
                    is_sasl = true;
                    self.set("security.protocol", name);
                }
                _ => self.fault(
                    place,
                    format!("`security.protocol` can't be `{value}`"),
                    "it takes PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
                ),
            }
        }
        let carries_tokens = mechanism.as_ref().is_some_and(|line| {
            ["AWS_MSK_IAM", "OAUTHBEARER"].iter().any(|name| line.value.trim().eq_ignore_ascii_case(name))
        });
        let is_known =
            |line: &Line| carries_tokens && IAM_HANDLERS.iter().any(|class| line.value.trim().ends_with(class));
        let is_iam = handlers.iter().flatten().any(is_known);
        for (name, line) in HANDLERS.iter().zip(&handlers) {
            if let Some(line) = line.as_ref().filter(|line| !is_known(line)) {
                self.fault(
                    &line.place,
                    format!("`{name}` names a Java class, which only a Java client can load"),
                    "delete the line, and use PLAIN, SCRAM, AWS_MSK_IAM, or a client certificate",
                );
            }
        }
        if mechanism.is_none() && entry.is_none() {
            if is_sasl && !self.lines.contains_key("sasl.username") {
                self.fault(
                    self.place_of("security.protocol"),
                    "the security protocol asks for a login, and no mechanism is named",
                    "add `sasl.mechanism` and `sasl.jaas.config`",
                );
            }
            return;
        }
        // What Java's clients take when nothing is said.
        let mechanism =
            mechanism.unwrap_or_else(|| Line { place: self.place_of("sasl.jaas.config"), value: "GSSAPI".to_owned() });
        let (place, name) = (mechanism.place, mechanism.value.trim().to_ascii_uppercase());
        if !is_sasl {
            self.fault(
                &place,
                "a SASL mechanism has no effect under this `security.protocol`",
                "set `security.protocol` to SASL_SSL (or SASL_PLAINTEXT)",
            );
        }
        let login = entry.and_then(|line| match jaas::parse(&line.value) {
            Ok(login) => Some((line.place, login)),
            Err(wrong) => {
                self.fault(
                    line.place,
                    format!("`sasl.jaas.config` can't be read: {wrong}"),
                    "write it as Kafka documents it",
                );
                None
            }
        });
        match name.as_str() {
            "PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512" => {
                self.set("sasl.mechanism", &name);
                self.password(login, if name == "PLAIN" { "PlainLoginModule" } else { "ScramLoginModule" });
            }
            // On the wire it is a bearer token, which only a signer makes; Java's clients may be told so, too.
            "AWS_MSK_IAM" => self.msk_iam(login, "IAMLoginModule"),
            "OAUTHBEARER" if is_iam => self.msk_iam(login, "OAuthBearerLoginModule"),
            "OAUTHBEARER" => self.fault(
                place,
                "OAUTHBEARER is not among the mechanisms of this client, but for the tokens of Amazon MSK",
                "use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, AWS_MSK_IAM, or a client certificate",
            ),
            "GSSAPI" => self.fault(
                place,
                "GSSAPI (Kerberos), which Java's clients take when no mechanism is named, is not built into this client",
                "use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, AWS_MSK_IAM, or a client certificate",
            ),
            _ => self.fault(
                place,
                format!("there is no mechanism `{name}`"),
                "`sasl.mechanism` takes PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or AWS_MSK_IAM",
            ),
        }
    }

    fn password(&mut self, login: Option<(String, jaas::Login)>, module: &str) {
        let Some((place, mut login)) = login else {
            if !self.lines.contains_key("sasl.username") || !self.lines.contains_key("sasl.password") {
                self.fault(
                    self.place_of("sasl.mechanism"),
                    "the mechanism needs a user name and a password, and there are none",
                    format!("add `sasl.jaas.config={module} required username=\"…\" password=\"…\";`"),
                );
            }
            return;
        };
        self.module(&place, &login, module);
        for (option, key) in [("username", "sasl.username"), ("password", "sasl.password")] {
            match login.options.remove(option) {
                Some(value) => self.set(key, value),
                None => {
                    self.fault(&place, format!("`sasl.jaas.config` names no {option}"), format!("add {option}=\"…\""))
                }
            }
        }
        self.unused(&place, &login);
    }

    fn msk_iam(&mut self, login: Option<(String, jaas::Login)>, module: &str) {
        self.set("sasl.mechanism", "OAUTHBEARER");
        if self.both.get("security.protocol").is_some_and(|protocol| protocol == "SASL_PLAINTEXT") {
            let message = "whoever listens on the way could use the token of an AWS login";
            self.fault(self.place_of("security.protocol"), message, "set `security.protocol` to SASL_SSL");
        }
        let mut told = MskIam::default();
        if let Some((place, mut login)) = login {
            self.module(&place, &login, module);
            told.profile = login.options.remove("awsProfileName");
            told.role_arn = login.options.remove("awsRoleArn");
            told.role_session_name = login.options.remove("awsRoleSessionName");
            told.role_external_id = login.options.remove("awsRoleExternalId");
            told.sts_region = login.options.remove("awsStsRegion");
            // It only says how Java's client logs.
            login.options.remove("awsDebugCreds");
            self.unused(&place, &login);
        }
        self.login = Login::MskIam(told);
    }

    fn module(&mut self, place: &str, login: &jaas::Login, module: &str) {
        if login.module != module {
            let message =
                format!("`sasl.jaas.config` names `{}`, which is not the module of this mechanism", login.module);
            self.fault(place, message, format!("its module is {module}"));
        }
    }

    fn unused(&mut self, place: &str, login: &jaas::Login) {
        for option in login.options.keys() {
            let message = format!("`sasl.jaas.config` has an option `{option}`, which this client does not know");
            self.fault(place, message, "delete the option");
        }
    }
}
