use super::*;

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn locations_are_taken_byte_for_byte() {
    let check = |location: &str, expected: Option<&str>| {
        assert_eq!(path_of(location).ok(), expected.map(PathBuf::from), "{location}");
    };
    check("file:///a b/k=x%2Fy/f.parquet", Some("/a b/k=x%2Fy/f.parquet"));
    check("file:/a/b", Some("/a/b"));
    check("/a/b%20c", Some("/a/b%20c"));
    check("/a/ü", Some("/a/ü"));
    check("file://host/a", None);
    check("file:a", None);
    check("a/b", None);
    check("", None);
    check("s3://bucket/a", None);
    check("file:///a/../b", None);

    assert_eq!(location_of(Path::new("/a b/c%41")).unwrap(), "file:///a b/c%41");
    for bad in ["a/b", "/a?b", "/a#b", "/a\nb"] {
        assert!(location_of(Path::new(bad)).is_err(), "{bad}");
    }
}

#[tokio::test]
async fn a_file_appears_whole_under_its_exact_name_and_is_never_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let io = local();
    let folder = dir.path().join("k=a%2Fb c");
    let location = location_of(&folder.join("f%41.bin")).unwrap();

    let mut writer = io.new_output(&location).unwrap().writer().await.unwrap();
    writer.write(Bytes::from_static(b"0123")).await.unwrap();
    assert!(!io.exists(&location).await.unwrap(), "a file half written is not there");
    writer.write(Bytes::from_static(b"456789")).await.unwrap();
    writer.close().await.unwrap();
    assert!(writer.close().await.is_err());
    assert_eq!(names(&folder), ["f%41.bin"]);

    let again = io.new_output(&location).unwrap().write(Bytes::from_static(b"other")).await.unwrap_err();
    assert_eq!(kind_of(&again), Kind::Bug);
    assert_eq!(names(&folder), ["f%41.bin"], "the refused write leaves nothing behind");

    let input = io.new_input(&location).unwrap();
    assert_eq!(input.read().await.unwrap(), "0123456789");
    assert_eq!(input.metadata().await.unwrap().size, 10);
    let reader = input.reader().await.unwrap();
    assert_eq!(reader.read(3..7).await.unwrap(), "3456");
    assert_eq!(reader.read(10..10).await.unwrap(), "");
    for range in [5..11, 0..u64::MAX, 11..12] {
        assert_eq!(kind_of(&reader.read(range).await.unwrap_err()), Kind::Corrupt);
    }
}

#[tokio::test]
async fn an_abandoned_write_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let location = location_of(&dir.path().join("f")).unwrap();
    let mut writer = local().new_output(&location).unwrap().writer().await.unwrap();
    writer.write(Bytes::from_static(b"half")).await.unwrap();
    drop(writer);
    assert!(names(dir.path()).is_empty());
}

#[tokio::test]
async fn deleting_takes_named_files_only() {
    let dir = tempfile::tempdir().unwrap();
    let io = local();
    let location = |name: &str| location_of(&dir.path().join(name)).unwrap();
    for name in ["a", "b", "c"] {
        io.new_output(location(name)).unwrap().write(Bytes::from_static(b"x")).await.unwrap();
    }
    io.delete(location("a")).await.unwrap();
    io.delete(location("a")).await.unwrap();
    io.delete_stream(futures::stream::iter([location("b"), location("gone")])).await.unwrap();
    assert!(io.delete_prefix(location_of(dir.path()).unwrap()).await.is_err());
    assert_eq!(names(dir.path()), ["c"]);
}

#[tokio::test]
async fn failures_say_what_happens_next() {
    let dir = tempfile::tempdir().unwrap();
    let io = local();
    let missing = location_of(&dir.path().join("missing")).unwrap();
    assert_eq!(kind_of(&io.new_input(&missing).unwrap().read().await.unwrap_err()), Kind::Corrupt);

    let file = location_of(&dir.path().join("file")).unwrap();
    io.new_output(&file).unwrap().write(Bytes::new()).await.unwrap();
    let under = io.new_output(format!("{file}/child")).unwrap().write(Bytes::new()).await.unwrap_err();
    assert_eq!(kind_of(&under), Kind::Misconfigured, "{under}");

    let elsewhere = io.new_input("s3://bucket/key").unwrap().read().await.unwrap_err();
    assert_eq!(kind_of(&elsewhere), Kind::Misconfigured);
    let busy = Error::new(ErrorKind::Unexpected, "slow down").with_retryable(true);
    assert_eq!(kind_of(&busy), Kind::Retry);
}

#[test]
fn a_storage_of_one_process_says_so_when_read_back() {
    let factory: Arc<dyn StorageFactory> = Arc::new(Given { storage: Some(Arc::new(Local)) });
    let text = serde_json::to_string(&factory).unwrap();
    let back: Arc<dyn StorageFactory> = serde_json::from_str::<Box<dyn StorageFactory>>(&text).unwrap().into();
    assert!(back.build(&StorageConfig::new()).is_err());
}
