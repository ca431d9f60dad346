//! Which pipeline file is meant: by name, by path, or the only one there is.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::fault::Error;
use crate::nearest::nearest;

/// The pipelines of some folders, by name; of two with one name, the earlier folder's. Folders that are not there hold
/// none. Whatever has a pipeline's name is listed, a link to nothing or a folder too: whoever reads it is told what it is.
///
/// # Errors
/// [`Error::Unreadable`].
pub fn list(folders: &[PathBuf]) -> Result<BTreeMap<String, PathBuf>, Error> {
    let mut found = BTreeMap::new();
    for folder in folders {
        let unreadable = |source| Error::Unreadable { path: folder.clone(), source };
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => continue,
            Err(error) => return Err(unreadable(error)),
        };
        for entry in entries {
            let path = entry.map_err(unreadable)?.path();
            if path.extension().is_some_and(|e| e == "toml")
                && let Some(name) = path.file_stem().and_then(|s| s.to_str())
            {
                found.entry(name.to_owned()).or_insert(path);
            }
        }
    }
    Ok(found)
}

/// The file of a pipeline: `wanted` is a name in one of the folders, or a path (it ends in `.toml` or has a separator).
/// Without one, the only pipeline there is.
///
/// # Errors
/// [`Error::UnknownPipeline`], [`Error::NoPipeline`], [`Error::SeveralPipelines`] with the names there are;
/// [`Error::Unreadable`].
pub fn find(folders: &[PathBuf], wanted: Option<&str>) -> Result<PathBuf, Error> {
    if let Some(path) = wanted.filter(|w| w.ends_with(".toml") || w.contains(std::path::is_separator)) {
        return Ok(Path::new(path).to_owned());
    }
    let mut found = list(folders)?;
    let names = |found: &BTreeMap<String, PathBuf>| found.keys().cloned().collect::<Vec<_>>();
    match wanted {
        Some(name) => found.remove(name).ok_or_else(|| Error::UnknownPipeline {
            name: name.to_owned(),
            nearest: nearest(name, found.keys().map(String::as_str)).map(str::to_owned),
            known: names(&found),
        }),
        None => match found.pop_first() {
            None => Err(Error::NoPipeline { folders: folders.to_vec() }),
            Some((_, path)) if found.is_empty() => Ok(path),
            Some((name, path)) => {
                found.insert(name, path);
                Err(Error::SeveralPipelines { known: names(&found) })
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipeline_is_found_by_name_by_path_or_by_being_the_only_one() {
        let temp = tempfile::tempdir().unwrap();
        let folders = [temp.path().join("pipelines"), temp.path().join("embedded"), temp.path().join("absent")];
        assert!(matches!(find(&folders, None), Err(Error::NoPipeline { folders }) if folders.len() == 3));
        for folder in &folders[..2] {
            std::fs::create_dir(folder).unwrap();
        }
        // What was applied, and other files, are no pipelines.
        std::fs::create_dir(folders[1].join("employee")).unwrap();
        std::fs::write(folders[0].join("notes.md"), "").unwrap();
        assert!(matches!(find(&folders, None), Err(Error::NoPipeline { .. })));

        let employee = folders[0].join("employee.toml");
        std::fs::write(&employee, "").unwrap();
        assert_eq!(find(&folders, None).unwrap(), employee);
        std::fs::write(folders[1].join("accounts.toml"), "").unwrap();
        assert_eq!(find(&folders, Some("employee")).unwrap(), employee);
        assert_eq!(find(&folders, Some("accounts")).unwrap(), folders[1].join("accounts.toml"));
        assert!(
            matches!(find(&folders, None), Err(Error::SeveralPipelines { known }) if known == ["accounts", "employee"])
        );
        let error = find(&folders, Some("employe")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no pipeline `employe` (did you mean `employee`?); there are: accounts, employee"
        );
        assert_eq!(error.kind(), model::failure::Kind::Misconfigured);
        assert_eq!(find(&folders, Some("elsewhere/x")).unwrap(), Path::new("elsewhere/x"));
        assert_eq!(find(&folders, Some("x.toml")).unwrap(), Path::new("x.toml"));
    }
}
