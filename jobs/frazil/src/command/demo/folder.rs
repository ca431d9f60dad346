//! The demo's own folder: an earlier demo's is replaced, any other is left alone.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::manners::failure::Failure;

/// Says that everything beside it was made by a demo and may go.
const MARKER: &str = "frazil-demo";
const MARKER_TEXT: &str = "This folder was made by `frazil demo`. The next demo in it replaces everything here.\n";

/// The pipeline file of the demo.
const PIPELINE: &str = include_str!("../../../demo/employee.toml");
/// Its line that says how rows enter, and what stands there in mode `dedup`.
const APPEND: &str = "mode = \"append\"\n";
const DEDUP: &str = "mode = \"dedup\"\nprimary_key = [\"employee_id\"]\n\
                     dedup_within = { column = \"start_date\", lookback = \"1h\", late = \"keep\" }\n";
/// The schema it names.
const SCHEMA: &str = include_str!("../../../../../proto/employee.proto");
/// Makes the folder a project of its own, so that commands find everything from inside it.
const ENVIRONMENT: &str = "[env.local]\ndir = \".\"\n";

/// What a demo and commands in its folder make. Anything else there is a person's.
const MADE: [&str; 14] = [
    MARKER,
    "frazil.toml",
    "pipelines",
    "proto",
    "staging",
    ".staging-tmp",
    "dead-letters",
    "settled",
    "runs",
    "warehouse",
    "catalog.db",
    "catalog.db-journal",
    "catalog.db-wal",
    "catalog.db-shm",
];
/// The same of the folders in which a person might put files of their own.
const MADE_WITHIN: [(&str, &[&str]); 2] =
    [("pipelines", &["employee.toml", "employee"]), ("proto", &["employee.proto"])];

/// What was found at the folder's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing, or an empty folder.
    Free,
    /// An earlier demo.
    Demo,
}

/// Looks at the folder's place; changes nothing.
///
/// # Errors
/// When something stands there that no demo made.
pub(super) fn look(folder: &Path) -> Result<Found, Failure> {
    if !folder.is_dir() && matches!(fs::symlink_metadata(folder), Err(e) if e.kind() == ErrorKind::NotFound) {
        return Ok(Found::Free);
    }
    let names = names(folder)?;
    if names.is_empty() {
        return Ok(Found::Free);
    }
    let foreign = |message: String| {
        Failure::usage("demo.folder", message)
            .at(folder.display().to_string())
            .remedy("move it away, or choose another folder with --dir")
    };
    if !names.iter().any(|name| name == MARKER) {
        return Err(foreign("the folder holds something that no demo made; it is left as it is".to_owned()));
    }
    let mut others: Vec<String> = names.into_iter().filter(|name| !MADE.contains(&name.as_str())).collect();
    for (inner, made) in MADE_WITHIN {
        if folder.join(inner).is_dir() {
            let within = self::names(&folder.join(inner))?;
            others.extend(
                within.into_iter().filter(|name| !made.contains(&name.as_str())).map(|n| format!("{inner}/{n}")),
            );
        }
    }
    if others.is_empty() {
        return Ok(Found::Demo);
    }
    others.sort_unstable();
    others.truncate(5);
    Err(foreign(format!(
        "the demo's folder holds something that no demo made ({}); all is left as it is",
        others.join(", ")
    )))
}

fn names(folder: &Path) -> Result<Vec<String>, Failure> {
    let entries = fs::read_dir(folder).map_err(|e| fault(folder, &e))?;
    let name = |entry: std::io::Result<fs::DirEntry>| entry.map(|e| e.file_name().to_string_lossy().into_owned());
    entries.map(name).collect::<Result<_, _>>().map_err(|e| fault(folder, &e))
}

/// Clears the folder of an earlier demo and lays out a new one's files. The marker goes in first and out never: a demo
/// that is cut off leaves a folder the next one may replace.
///
/// # Errors
/// As [`look`], or when the files can't be removed or written.
pub(super) fn prepare(folder: &Path, dedup: bool) -> Result<(), Failure> {
    if look(folder)? == Found::Demo {
        for entry in fs::read_dir(folder).map_err(|e| fault(folder, &e))? {
            let entry = entry.map_err(|e| fault(folder, &e))?;
            if entry.file_name() == MARKER {
                continue;
            }
            let path = entry.path();
            let kind = entry.file_type().map_err(|e| fault(&path, &e))?;
            // A link is removed itself, never what it points at.
            let gone = if kind.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            gone.map_err(|e| fault(&path, &e))?;
        }
    }
    fs::create_dir_all(folder).map_err(|e| fault(folder, &e))?;
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).and_then(|()| fs::write(&path, text)).map_err(|e| fault(&path, &e))
    };
    write(MARKER, MARKER_TEXT)?;
    write("frazil.toml", ENVIRONMENT)?;
    files(dedup).iter().try_for_each(|(name, text)| write(name, text))
}

/// The files that a demo adds to a project, from its root: its pipeline and the schema.
pub(super) fn files(dedup: bool) -> [(&'static str, String); 2] {
    let pipeline = if dedup { PIPELINE.replace(APPEND, DEDUP) } else { PIPELINE.to_owned() };
    [("pipelines/employee.toml", pipeline), ("proto/employee.proto", SCHEMA.to_owned())]
}

fn fault(path: &Path, error: &std::io::Error) -> Failure {
    Failure::io("demo.folder", path.display().to_string(), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_demo_is_replaced_and_anything_else_left_alone() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("deep/demo");
        assert_eq!(look(&folder).unwrap(), Found::Free);
        prepare(&folder, false).unwrap();
        assert_eq!(look(&folder).unwrap(), Found::Demo);
        fs::create_dir(folder.join("warehouse")).unwrap();
        fs::write(folder.join("warehouse/old"), "x").unwrap();
        #[cfg(unix)]
        {
            let kept = outer.path().join("kept");
            fs::create_dir(&kept).unwrap();
            fs::write(kept.join("file"), "x").unwrap();
            std::os::unix::fs::symlink(&kept, folder.join("staging")).unwrap();
            prepare(&folder, false).unwrap();
            assert!(kept.join("file").exists());
        }
        for own in ["notes.md", "pipelines/mine.toml", "proto/mine.proto"] {
            fs::write(folder.join(own), "x").unwrap();
            let failure = prepare(&folder, false).unwrap_err();
            assert!(failure.message.contains(own), "{}", failure.message);
            fs::remove_file(folder.join(own)).unwrap();
        }
        prepare(&folder, false).unwrap();
        assert!(!folder.join("warehouse").exists());
        assert!(folder.join("pipelines/employee.toml").exists());

        prepare(&folder, true).unwrap();
        let text = fs::read_to_string(folder.join("pipelines/employee.toml")).unwrap();
        assert!(text.contains(DEDUP) && !text.contains(APPEND));

        let foreign = outer.path().join("foreign");
        fs::create_dir(&foreign).unwrap();
        assert_eq!(look(&foreign).unwrap(), Found::Free, "an empty folder may be used");
        fs::write(foreign.join("thesis.txt"), "years of work").unwrap();
        let failure = prepare(&foreign, false).unwrap_err();
        assert_eq!(failure.exit().code(), 2);
        assert_eq!(fs::read_dir(&foreign).unwrap().count(), 1);
        assert!(look(&foreign.join("thesis.txt")).is_err(), "a file is no folder");
    }
}
