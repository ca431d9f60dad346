use model::clock::ManualClock;
use model::failure::Kind;

use super::*;

fn store(root: &Path) -> LocalStore {
    LocalStore::open(root, Arc::new(ManualClock::new(Timestamp::from_micros(7)))).unwrap()
}

fn files_below(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files_below(&path)) } else { found.push(path.to_string_lossy().into_owned()) }
    }
    found
}

/// Stores half of what it is given and then has no room left.
fn full_disk(file: &mut File, body: &[u8]) -> io::Result<()> {
    file.write_all(body.get(..body.len() / 2).unwrap_or_default())?;
    Err(io::Error::from(ErrorKind::StorageFull))
}

#[tokio::test]
async fn a_full_disk_is_tried_again_and_leaves_nothing_half_written() {
    let folder = tempfile::tempdir().unwrap();
    let full = store(folder.path()).changed(|inner| inner.fill = full_disk);
    let body = Bytes::from_static(b"whole or not at all");
    let fault = full.put_new("staging/a", body.clone()).await.unwrap_err();
    assert_eq!(fault.kind(), Kind::Retry);
    assert!(fault.to_string().contains("make room"), "{fault}");
    assert_eq!(full.put("runs/a", body.clone()).await.unwrap_err().kind(), Kind::Retry);
    assert!(full.list("", None, None).await.unwrap().objects.is_empty());
    assert_eq!(files_below(folder.path()), Vec::<String>::new());

    let roomy = store(folder.path());
    assert!(matches!(roomy.put_new("staging/a", body.clone()).await.unwrap(), Put::Stored { .. }));
    assert!(full.put("staging/a", Bytes::from_static(b"other")).await.is_err());
    assert_eq!(roomy.get("staging/a").await.unwrap(), body, "a failed overwrite leaves the old body");
}

#[tokio::test]
async fn what_stands_in_the_way_is_for_a_person_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    fs::write(folder.path().join("staging"), "a file where a folder is expected").unwrap();
    fs::create_dir_all(folder.path().join("runs/p/fold.json")).unwrap();
    let body = Bytes::from_static(b"x");
    for (key, new) in [("staging/p/a", true), ("staging/p/a", false), ("runs/p/fold.json", false)] {
        let fault = if new {
            store.put_new(key, body.clone()).await.map(|_| ()).unwrap_err()
        } else {
            store.put(key, body.clone()).await.map(|_| ()).unwrap_err()
        };
        assert_eq!(fault.kind(), Kind::Misconfigured, "{fault}");
        assert!(fault.to_string().contains("stands where"), "{fault}");
    }
    assert_eq!(files_below(folder.path()).len(), 1);
    assert!(store.get("runs/p/fold.json").await.unwrap_err().is_not_found());
    assert_eq!(store.head("staging/p/a").await.unwrap(), None);
    let root = folder.path().join("staging/below-a-file");
    assert_eq!(LocalStore::open(root, Arc::clone(&store.inner.clock)).unwrap_err().kind(), Kind::Misconfigured);
}

#[tokio::test]
async fn leftovers_of_dead_processes_are_hidden_and_go_after_a_day() {
    let folder = tempfile::tempdir().unwrap();
    let hidden = folder.path().join(TEMPORARY);
    fs::create_dir_all(&hidden).unwrap();
    // This process's own next names, as an earlier process with the same number would have left them.
    for (name, age_hours) in [("0", 0), ("1", 23), ("2", 25)] {
        let path = hidden.join(format!("{}-{name}", std::process::id()));
        let file = File::create(&path).unwrap();
        let then = fs::metadata(&path).unwrap().modified().unwrap() - Duration::from_secs(age_hours * 3600);
        file.set_modified(then).unwrap();
    }
    let store = store(folder.path());
    assert_eq!(files_below(&hidden).len(), 2);
    assert!(store.list("", None, None).await.unwrap().objects.is_empty());
    assert!(matches!(store.put_new("a", Bytes::new()).await.unwrap(), Put::Stored { .. }));
    assert_eq!(files_below(&hidden).len(), 2);
    assert!(store.put_new(".staging-tmp/x", Bytes::new()).await.is_err());
}

#[tokio::test]
async fn two_stores_over_one_folder_are_one_store() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (store(folder.path()), store(folder.path()));
    assert!(matches!(a.put_new("k", Bytes::from_static(b"1")).await.unwrap(), Put::Stored { .. }));
    assert!(matches!(b.put_new("k", Bytes::from_static(b"2")).await.unwrap(), Put::AlreadyStored { .. }));
    assert_eq!(b.get("k").await.unwrap(), Bytes::from_static(b"1"));
}
