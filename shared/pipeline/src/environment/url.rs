//! URLs of servers: of catalogs, of who gives them tokens, of schema registries.

use std::net::Ipv6Addr;

use crate::fault::code;
use crate::reader::{Reader, Text};

/// Characters of a path beside letters and digits (RFC 3986, `pchar` and `/`).
const PATH: &str = "-._~!$&'()*+,;=:@/%";

enum Wrong {
    Credentials,
    Shape(&'static str),
}

/// A URL that names a server and a path there. It may hold a password: it is never repeated. `secret` says what stands in the place of
/// credentials, in the words of the fault.
pub(super) fn read(reader: &mut Reader<'_>, text: &Text, name: &str, secret: &str) -> Option<String> {
    of(reader, &text.value, text.at, name, secret)
}

/// The same of a part of a value.
pub(super) fn of(reader: &mut Reader<'_>, text: &str, at: usize, name: &str, secret: &str) -> Option<String> {
    let message = match check(text) {
        Ok(()) => return Some(text.to_owned()),
        Err(Wrong::Credentials) => format!("`{name}` holds credentials; they are a `secret`, as in {secret}"),
        Err(Wrong::Shape(takes)) => format!("`{name}` takes a URL {takes}"),
    };
    reader.fault(at, code::INVALID, message);
    None
}

fn check(text: &str) -> Result<(), Wrong> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let rest = rest.ok_or(Wrong::Shape("that begins with https:// or http://"))?;
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if authority.contains('@') {
        return Err(Wrong::Credentials);
    }
    let (host, port) = match authority.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, after)) => (host, Some(after.strip_prefix(':').unwrap_or_default())),
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err(Wrong::Shape("that names a host"));
    }
    let is_name = host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'));
    let is_host = if authority.starts_with('[') { host.parse::<Ipv6Addr>().is_ok() } else { is_name };
    if !is_host {
        return Err(Wrong::Shape("whose host is a name or an address"));
    }
    // A sign would be parsed, too.
    let is_port = |port: &str| port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|n| n > 0);
    if !port.is_none_or(is_port) {
        return Err(Wrong::Shape("whose port is a number from 1 to 65535"));
    }
    if path.contains(['?', '#']) {
        return Err(Wrong::Shape("with neither a query nor a fragment"));
    }
    if !path.chars().all(|c| c.is_ascii_alphanumeric() || PATH.contains(c)) {
        return Err(Wrong::Shape("whose path is of ASCII letters, without spaces: others are written as in %20"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_server_and_a_path_there_and_nobody() {
        for good in [
            "https://catalog.example.com",
            "http://localhost:8181/",
            "http://10.0.0.7:1/a",
            "https://[::1]:65535/api/v1",
            "https://[2001:db8::7]",
            "https://my_host/api/catalog;v=1/a@b/%20",
        ] {
            assert!(check(good).is_ok(), "{good}");
        }
        for (bad, words) in [
            ("catalog", "begins with https://"),
            ("ftp://a/b", "begins with https://"),
            ("HTTPS://a", "begins with https://"),
            ("https://", "names a host"),
            ("https:///x", "names a host"),
            ("https://:8080/x", "names a host"),
            ("https://a b/x", "whose host"),
            ("https://ä.example.com", "whose host"),
            ("https://a\\b", "whose host"),
            ("https://[zz]/x", "whose host"),
            ("https://[::1/x", "whose host"),
            ("https://h:99999/x", "whose port"),
            ("https://h:65536", "whose port"),
            ("https://h:0", "whose port"),
            ("https://h:", "whose port"),
            ("https://h:+80", "whose port"),
            ("https://h:8080:1", "whose port"),
            ("https://h:https", "whose port"),
            ("https://[::1]8080", "whose port"),
            ("https://h?x=1", "query"),
            ("https://h/a#b", "query"),
            ("https://h/a b", "whose path"),
            ("https://h/ü", "whose path"),
            ("https://h/a\n", "whose path"),
        ] {
            match check(bad) {
                Err(Wrong::Shape(why)) => assert!(why.contains(words), "{bad}: {why}"),
                Err(Wrong::Credentials) => panic!("{bad} holds no credentials"),
                Ok(()) => panic!("{bad} is none"),
            }
        }
        for held in ["https://u:hunter2@h", "https://hunter2@h/x", "http://u:h@ter2@h:80", "https://u@[::1]"] {
            assert!(matches!(check(held), Err(Wrong::Credentials)), "{held}");
        }
    }
}
