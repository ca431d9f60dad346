//! TLS: whom a client trusts, and the certificate that it shows.

use super::{Line, Reading};

impl Reading {
    /// Whom a client trusts.
    pub(super) fn trust(&mut self) {
        let kind = self.take("ssl.truststore.type");
        let location = self.take("ssl.truststore.location");
        let inline = self.take("ssl.truststore.certificates");
        // PEM files have none.
        let _password = self.take("ssl.truststore.password");
        let name = kind.as_ref().map_or("JKS", |line| line.value.trim()).to_ascii_uppercase();
        match (location, inline) {
            (None, None) => {}
            (None, Some(line)) => self.set("ssl.ca.pem", line.value),
            (Some(location), _) if name == "PEM" => self.set("ssl.ca.location", location.value),
            (Some(location), _) => self.fault(
                location.place,
                format!("whom to trust is read from PEM files only, and this trust store is of type {name}"),
                format!(
                    "convert it (keytool -list -rfc -keystore '{}' > ca.pem), and say `ssl.truststore.location=ca.pem` and \
                     `ssl.truststore.type=PEM`",
                    location.value
                ),
            ),
        }
        if let Some(Line { place, value }) = self.take("ssl.endpoint.identification.algorithm") {
            match value.trim() {
                "" => self.set("ssl.endpoint.identification.algorithm", "none"),
                "https" => self.set("ssl.endpoint.identification.algorithm", "https"),
                other => {
                    let message = format!("`ssl.endpoint.identification.algorithm` can't be `{other}`");
                    self.fault(place, message, "it takes https, or nothing for no check of host names");
                }
            }
        }
    }

    /// Whom a client trusts where no line says it: the system's authorities, as Java trusts its own. The OpenSSL that is
    /// built in would look for them in a folder of its own.
    pub(super) fn authorities(&mut self) {
        let is_tls = self.both.get("security.protocol").is_some_and(|protocol| protocol.ends_with("SSL"));
        if is_tls && !self.both.contains_key("ssl.ca.location") && !self.both.contains_key("ssl.ca.pem") {
            self.set("ssl.ca.location", "probe");
        }
    }

    /// The certificate that a client shows.
    pub(super) fn identity(&mut self) {
        let kind = self.take("ssl.keystore.type");
        let location = self.take("ssl.keystore.location");
        let store_password = self.take("ssl.keystore.password");
        let key_password = self.take("ssl.key.password");
        let (chain, key) = (self.take("ssl.keystore.certificate.chain"), self.take("ssl.keystore.key"));
        let name = kind.as_ref().map_or("JKS", |line| line.value.trim()).to_ascii_uppercase();
        match (location, name.as_str()) {
            (None, _) => {}
            // A PEM key store holds key and chain in one file.
            (Some(location), "PEM") => {
                self.set("ssl.certificate.location", location.value.clone());
                self.set("ssl.key.location", location.value);
            }
            (Some(location), "PKCS12") => {
                self.set("ssl.keystore.location", location.value);
                if let Some(password) = store_password {
                    self.set("ssl.keystore.password", password.value);
                }
            }
            (Some(location), _) => self.fault(
                location.place,
                format!("a key store of type {name} is Java's own, and can't be read here"),
                format!(
                    "convert it (keytool -importkeystore -srckeystore '{}' -destkeystore client.p12 -deststoretype PKCS12), \
                     and say `ssl.keystore.location=client.p12` and `ssl.keystore.type=PKCS12`",
                    location.value
                ),
            ),
        }
        if let Some(chain) = chain {
            self.set("ssl.certificate.pem", chain.value);
        }
        if let Some(key) = key {
            self.set("ssl.key.pem", key.value);
        }
        if let Some(password) = key_password {
            self.set("ssl.key.password", password.value);
        }
    }
}
