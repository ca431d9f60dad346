//! What S3 Tables refuse.

use std::collections::HashMap;
use std::sync::Mutex;

use super::glue::bucket;
use super::*;

const JSON: &str = "application/json";
const CATALOG: &str = "\"s3tables:arn:aws:s3tables:eu-west-1:111122223333:bucket/lake\"";

fn said(body: &Value) -> Reply {
    Some((200, JSON, body.to_string().into_bytes()))
}

fn refused(status: u16, code: &str) -> Reply {
    Some((status, JSON, json!({"__type": code, "message": "in its own words"}).to_string().into_bytes()))
}

/// Which call a request is, by its method and path; nothing where it is one of S3.
fn call_of(request: &Request) -> Option<&'static str> {
    let (method, path) = request.line.split_once(' ')?;
    let path = path.split('?').next()?;
    let steps: Vec<&str> = path.trim_matches('/').split('/').collect();
    match (method, steps.as_slice()) {
        ("GET", ["namespaces", _, _]) => Some("GetNamespace"),
        ("PUT", ["namespaces", _]) => Some("CreateNamespace"),
        ("PUT", ["tables", _, _]) => Some("CreateTable"),
        ("GET", ["tables", _, _, _, "metadata-location"]) => Some("GetTableMetadataLocation"),
        ("PUT", ["tables", _, _, _, "metadata-location"]) => Some("UpdateTableMetadataLocation"),
        _ => None,
    }
}

/// A table bucket without tables that does what it is asked, but for what `other` answers, and S3 beside it.
fn tables(other: impl Fn(&str) -> Option<Reply> + Send + Sync + 'static) -> impl Fn(&Request) -> Reply + Send + Sync {
    // Whether there is an entry, and the metadata file that it names.
    let (entry, files) = (Mutex::new(None::<Option<String>>), Mutex::new(HashMap::new()));
    move |request| {
        let Some(call) = call_of(request) else { return bucket(&mut files.lock().unwrap(), request) };
        if let Some(reply) = other(call) {
            return reply;
        }
        let mut entry = entry.lock().unwrap();
        let about = json!({"name": "employee", "namespace": ["bigdata"], "tableARN": "x", "versionToken": "v1",
            "tableBucketARN": "x", "createdAt": "2026-12-01T00:00:00Z", "createdBy": "x", "ownerAccountId": "x"});
        match (call, entry.as_ref()) {
            ("GetTableMetadataLocation", None) => refused(404, "NotFoundException"),
            ("GetTableMetadataLocation", Some(named)) => said(
                &json!({"versionToken": "v1", "warehouseLocation": "s3://place--table-s3", "metadataLocation": named}),
            ),
            ("CreateTable", _) => {
                *entry = Some(None);
                said(&about)
            }
            ("UpdateTableMetadataLocation", _) => {
                *entry = Some(request.json()["metadataLocation"].as_str().map(str::to_owned));
                let mut about = about;
                about["metadataLocation"] = "x".into();
                said(&about)
            }
            _ => said(&about),
        }
    }
}

/// The call named so is answered so.
fn with(named: &'static str, reply: fn() -> Reply) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
    tables(move |call| (call == named).then(reply))
}

pub(super) fn refusals() -> Vec<Said> {
    const LOOK: &str = "GetTableMetadataLocation";
    const SWAP: &str = "UpdateTableMetadataLocation";
    let case = |what| Case::new(what, CATALOG);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let plain = Server::start(|_| None);
    let denied = || refused(403, "ForbiddenException");
    // The first swap makes the table: what is answered to the second is answered to a commit.
    let second = |reply: fn() -> Reply| {
        let swaps = std::sync::atomic::AtomicUsize::new(0);
        tables(move |call| {
            let is_later = call == SWAP && swaps.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 0;
            is_later.then(reply)
        })
    };
    vec![
        fold(&Case { credentials: false, ..case("no credentials") }, tables(|_| None)),
        fold(&case("credentials that ran out"), with(LOOK, || refused(403, "ExpiredTokenException"))),
        fold(&case("credentials that nobody knows"), with(LOOK, || refused(403, "UnrecognizedClientException"))),
        fold(&case("denied: to look"), with(LOOK, denied)),
        fold(&case("denied: to look for the namespace"), with("GetNamespace", denied)),
        fold(
            &case("denied: to make the namespace"),
            tables(move |call| match call {
                "GetNamespace" => Some(refused(404, "NotFoundException")),
                "CreateNamespace" => Some(denied()),
                _ => None,
            }),
        ),
        fold(&case("denied: to make the table"), with("CreateTable", denied)),
        fold(&case("denied: to commit"), second(denied)),
        fold(
            &case("no such table bucket"),
            tables(|call| match call {
                "GetNamespace" | "CreateNamespace" => Some(refused(404, "NotFoundException")),
                _ => None,
            }),
        ),
        fold(&case("throttled"), with(LOOK, || refused(429, "TooManyRequestsException"))),
        fold(&case("throttled: the commit"), second(|| refused(429, "TooManyRequestsException"))),
        fold(&case("broken"), with(LOOK, || refused(500, "InternalServerErrorException"))),
        fold(
            &Case { settings: "warehouse = \"s3://lake/w\"", ..case("a place of one's own for the files") },
            tables(|_| None),
        ),
        fold(&Case { catalog: "\"s3tables:lake\"", ..case("no ARN of a table bucket") }, tables(|_| None)),
        fold(&Case { table: "bigdata.employee_", ..case("a name that it can't have") }, tables(|_| None)),
        fold_at(&case("nobody listens there"), &format!("http://{nobody}"), &[]),
        fold_at(&case("no TLS there"), &plain.url.replace("http://", "https://"), &[]),
        fold(&case("answer lost: the table's making"), with(SWAP, || None)),
        fold(&case("answer lost: the commit"), second(|| None)),
        fold(&case("others are always first"), second(|| refused(409, "ConflictException"))),
    ]
}
