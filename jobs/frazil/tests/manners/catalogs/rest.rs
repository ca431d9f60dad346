//! What a catalog that speaks REST refuses.

use std::sync::Mutex;

use super::*;

const JSON: &str = "application/json";

fn said(body: &Value) -> Reply {
    Some((200, JSON, body.to_string().into_bytes()))
}

fn refused(status: u16, kind: &str) -> Reply {
    let error = json!({"error": {"message": "in its words", "type": kind, "code": status}});
    Some((status, JSON, error.to_string().into_bytes()))
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Config,
    Load,
    Namespace,
    MakeNamespace,
    Make,
    Commit,
    Token,
}

fn call(request: &Request) -> Call {
    let (method, path) = request.line.split_once(' ').unwrap();
    match (method, path) {
        (_, path) if path.starts_with("/v1/config") => Call::Config,
        (_, path) if path.starts_with("/v1/oauth") => Call::Token,
        ("GET", path) if path.contains("/tables/") => Call::Load,
        ("POST", path) if path.contains("/tables/") => Call::Commit,
        ("POST", path) if path.ends_with("/tables") => Call::Make,
        ("POST", _) => Call::MakeNamespace,
        _ => Call::Namespace,
    }
}

/// A table as such a server makes it of a request.
fn table(asked: &Value, location: &str) -> Value {
    let metadata = json!({
        "format-version": 2, "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1", "location": location,
        "last-sequence-number": 0, "last-updated-ms": 1_700_000_000_000_i64, "last-column-id": 1000,
        "schemas": [asked["schema"]], "current-schema-id": 0, "partition-specs": [asked["partition-spec"]],
        "default-spec-id": 0, "last-partition-id": 1999, "sort-orders": [asked["write-order"]],
        "default-sort-order-id": 0, "properties": asked["properties"],
    });
    json!({"metadata-location": format!("{location}/metadata/00000-a.metadata.json"), "metadata": metadata})
}

/// A server without tables that does what it is asked, but for what `other` answers.
fn catalog(other: impl Fn(Call) -> Option<Reply> + Send + Sync + 'static) -> impl Fn(&Request) -> Reply + Send + Sync {
    let made = Mutex::new(None::<Value>);
    let folder = tempfile::tempdir().unwrap();
    move |request| {
        let call = call(request);
        if let Some(reply) = other(call) {
            return reply;
        }
        let mut made = made.lock().unwrap();
        match (call, made.as_ref()) {
            (Call::Config, _) => said(&json!({"defaults": {}, "overrides": {}})),
            (Call::Token, _) => said(&json!({"access_token": "hunter2", "token_type": "bearer"})),
            (Call::Namespace | Call::MakeNamespace, _) => said(&json!({"namespace": ["bigdata"]})),
            (Call::Load, None) => refused(404, "NoSuchTableException"),
            (Call::Make, _) => {
                let table = table(&request.json(), &format!("file://{}/employee", folder.path().display()));
                *made = Some(table.clone());
                said(&table)
            }
            (Call::Load | Call::Commit, table) => said(table.unwrap_or(&Value::Null)),
        }
    }
}

/// The call is answered so.
fn with(named: Call, reply: fn() -> Reply) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
    catalog(move |call| (call == named).then(reply))
}

pub(super) fn refusals() -> Vec<Said> {
    const REST: &str = "\"rest:URL\"";
    const TOKEN: &str = "{ rest = \"URL\", auth = \"token\", secret = \"env:CATALOG_SECRET\" }";
    const OAUTH2: &str = "{ rest = \"URL\", auth = \"oauth2\", secret = \"env:CATALOG_SECRET\" }";
    const SIGNED: &str = "{ rest = \"URL\", auth = \"sigv4:glue\", warehouse = \"123456789012\" }";
    const SECRET: &[(&str, &str)] = &[("CATALOG_SECRET", "ann:hunter2")];
    let case = |what| Case::new(what, REST);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let plain = Server::start(|_| None);
    let html = || Some((404, "text/html", b"<h1>Not here</h1>".to_vec()));
    let page = || Some((200, "text/html", b"<h1>Welcome</h1>".to_vec()));
    vec![
        fold(&Case::new("no secret", TOKEN), catalog(|_| None)),
        fold(
            &Case { variables: SECRET, ..Case::new("a token that ran out", TOKEN) },
            with(Call::Load, || refused(401, "NotAuthorizedException")),
        ),
        fold(
            &Case { variables: SECRET, ..Case::new("a secret that nobody knows", OAUTH2) },
            with(Call::Token, || refused(401, "invalid_client")),
        ),
        fold(
            &Case { variables: SECRET, ..Case::new("nobody gives tokens there", OAUTH2) },
            with(Call::Token, || Some((404, "text/html", b"<h1>Not here</h1>".to_vec()))),
        ),
        fold(&Case { credentials: false, ..Case::new("signed: no credentials", SIGNED) }, catalog(|_| None)),
        fold(&Case { region: false, ..Case::new("signed: no region", SIGNED) }, catalog(|_| None)),
        fold(
            &Case::new("signed: credentials that ran out", SIGNED),
            with(Call::Config, || {
                Some((403, JSON, b"{\"message\":\"The security token included in the request is expired\"}".to_vec()))
            }),
        ),
        fold(&case("denied: to look"), with(Call::Load, || refused(403, "ForbiddenException"))),
        fold(&case("denied: to make the table"), with(Call::Make, || refused(403, "ForbiddenException"))),
        fold(&case("denied: to commit"), with(Call::Commit, || refused(403, "ForbiddenException"))),
        fold(&case("throttled"), with(Call::Load, || refused(429, "TooManyRequestsException"))),
        fold(&case("throttled: the commit"), with(Call::Commit, || refused(429, "TooManyRequestsException"))),
        fold(&case("broken"), with(Call::Load, || refused(503, "ServiceUnavailableException"))),
        fold(&case("no such warehouse"), with(Call::Config, || refused(404, "NoSuchWarehouseException"))),
        fold(
            &case("no such namespace, and none may be made"),
            catalog(|call| match call {
                Call::Namespace => Some(refused(404, "NoSuchNamespaceException")),
                Call::MakeNamespace => Some(refused(403, "ForbiddenException")),
                _ => None,
            }),
        ),
        fold(&case("a name that it can't have"), with(Call::Make, || refused(400, "BadRequestException"))),
        fold(
            &case("a table of others"),
            with(Call::Load, || {
                let schema = json!({"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": false, "type": "long"}]});
                let asked = json!({"schema": schema, "partition-spec": {"spec-id": 0, "fields": []},
                    "write-order": {"order-id": 0, "fields": []}, "properties": {}});
                said(&table(&asked, "file:///lake/employee"))
            }),
        ),
        fold(&case("the URL is another server's"), move |_| html()),
        fold(&case("the URL is a page's"), move |_| page()),
        fold_at(&case("nobody listens there"), &format!("http://{nobody}"), &[]),
        fold_at(&case("no TLS there"), &plain.url.replace("http://", "https://"), &[]),
        fold(&case("answer lost: the table's making"), with(Call::Make, || None)),
        fold(&case("answer lost: the commit"), with(Call::Commit, || None)),
        fold(&case("others are always first"), with(Call::Commit, || refused(409, "CommitFailedException"))),
    ]
}
