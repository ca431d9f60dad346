//! What Glue refuses.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::*;

const AMZ: &str = "application/x-amz-json-1.1";

fn said(body: &str) -> Reply {
    Some((200, AMZ, body.as_bytes().to_vec()))
}

fn refused(status: u16, code: &str) -> Reply {
    Some((status, AMZ, format!("{{\"__type\":\"{code}\",\"Message\":\"in Glue's words\"}}").into_bytes()))
}

/// Answers of S3 to who writes and reads files there.
pub(super) fn bucket(files: &mut HashMap<String, Vec<u8>>, request: &Request) -> Reply {
    let (method, path) = request.line.split_once(' ').unwrap();
    let path = path.split('?').next().unwrap().to_owned();
    if path.starts_with("/nowhere/") {
        return Some((404, "application/xml", b"<Error><Code>NoSuchBucket</Code></Error>".to_vec()));
    }
    match (method, files.get(&path)) {
        ("PUT", _) => {
            files.insert(path, request.body.clone());
            Some((200, "application/xml", Vec::new()))
        }
        (_, Some(file)) => {
            let range = request.header("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
            match range {
                None => Some((200, "application/octet-stream", file.clone())),
                Some((first, last)) => {
                    let end = last.parse::<usize>().map_or(file.len(), |last| file.len().min(last + 1));
                    Some((206, "application/octet-stream", file[first.parse().unwrap()..end].to_vec()))
                }
            }
        }
        (_, None) => Some((404, "application/xml", b"<Error><Code>NoSuchKey</Code></Error>".to_vec())),
    }
}

/// A Glue without tables that does what it is asked, but for what `other` answers, and S3 beside it.
fn glue(other: impl Fn(&str) -> Option<Reply> + Send + Sync + 'static) -> impl Fn(&Request) -> Reply + Send + Sync {
    let (entry, files) = (Mutex::new(None::<Value>), Mutex::new(HashMap::new()));
    move |request| {
        let Some(call) = request.header("x-amz-target").and_then(|target| target.strip_prefix("AWSGlue.")) else {
            return bucket(&mut files.lock().unwrap(), request);
        };
        if let Some(reply) = other(call) {
            return reply;
        }
        let mut entry = entry.lock().unwrap();
        match (call, entry.as_ref()) {
            ("GetTable", None) => refused(400, "EntityNotFoundException"),
            ("GetTable", Some(table)) => said(&json!({"Table": table}).to_string()),
            ("CreateTable" | "UpdateTable", _) => {
                let mut table = request.json()["TableInput"].take();
                table["VersionId"] = "1".into();
                *entry = Some(table);
                said("{}")
            }
            _ => said("{\"Database\":{\"Name\":\"bigdata\"}}"),
        }
    }
}

/// The call named so is answered so.
fn with(named: &'static str, reply: fn() -> Reply) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
    glue(move |call| (call == named).then(reply))
}

pub(super) fn refusals() -> Vec<Said> {
    const GLUE: &str = "\"glue\"";
    let case = |what| Case { settings: "warehouse = \"s3://lake/w\"", ..Case::new(what, GLUE) };
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let plain = Server::start(|_| None);
    let (attempts, counted) = (Arc::new(AtomicUsize::new(0)), case("throttled: the commit"));
    let count = Arc::clone(&attempts);
    let throttled = fold(
        &counted,
        glue(move |call| {
            (call == "UpdateTable").then(|| {
                count.fetch_add(1, Ordering::Relaxed);
                refused(400, "ThrottlingException")
            })
        }),
    );
    assert_eq!(attempts.load(Ordering::Relaxed), 1, "a commit is sent once");
    vec![
        fold(&Case { region: false, ..case("no region") }, glue(|_| None)),
        fold(&Case { credentials: false, ..case("no credentials") }, glue(|_| None)),
        fold(&case("credentials that ran out"), with("GetTable", || refused(400, "ExpiredTokenException"))),
        fold(&case("credentials that nobody knows"), with("GetTable", || refused(400, "UnrecognizedClientException"))),
        fold(&case("denied: to look"), with("GetTable", || refused(400, "AccessDeniedException"))),
        fold(&case("denied: to look for the database"), with("GetDatabase", || refused(400, "AccessDeniedException"))),
        fold(
            &case("denied: to make the database"),
            glue(|call| match call {
                "GetDatabase" => Some(refused(400, "EntityNotFoundException")),
                "CreateDatabase" => Some(refused(400, "AccessDeniedException")),
                _ => None,
            }),
        ),
        fold(&case("denied: to make the table"), with("CreateTable", || refused(400, "AccessDeniedException"))),
        fold(&case("denied: to commit"), with("UpdateTable", || refused(400, "AccessDeniedException"))),
        fold(&case("throttled"), with("GetTable", || refused(400, "ThrottlingException"))),
        throttled,
        fold(&case("broken"), with("GetTable", || refused(500, "InternalServiceException"))),
        fold(&case("a key that can't be used"), with("CreateTable", || refused(400, "GlueEncryptionException"))),
        fold(
            &case("not to be had: an account's limit"),
            with("CreateTable", || refused(400, "ResourceNumberLimitExceededException")),
        ),
        fold(
            &Case { settings: "warehouse = \"s3://nowhere/lake\"", ..case("no such bucket for its files") },
            glue(|_| None),
        ),
        fold(&Case { table: "bigdata.Employee", ..case("a name that it can't have") }, glue(|_| None)),
        fold(
            &case("a table of others"),
            with("GetTable", || said("{\"Table\":{\"Name\":\"employee\",\"TableType\":\"EXTERNAL_TABLE\"}}")),
        ),
        fold(
            &case("an entry whose metadata file is gone"),
            with("GetTable", || {
                let parameters =
                    json!({"table_type": "ICEBERG", "metadata_location": "s3://lake/gone/00001-a.metadata.json"});
                said(&json!({"Table": {"Name": "employee", "VersionId": "1", "Parameters": parameters}}).to_string())
            }),
        ),
        fold_at(&case("nobody listens there"), &format!("http://{nobody}"), &[]),
        fold_at(&case("no TLS there"), &plain.url.replace("http://", "https://"), &[]),
        fold(&case("answer lost: the table's making"), with("CreateTable", || None)),
        fold(&case("answer lost: the commit"), with("UpdateTable", || None)),
        fold(&case("others are always first"), with("UpdateTable", || refused(400, "ConcurrentModificationException"))),
    ]
}
