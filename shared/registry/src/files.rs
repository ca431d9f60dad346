//! A folder of schema files.
//!
//! `42.avsc` is the schema of id 42, `5c0ffee5-0000-4000-8000-0000000000a1.proto` that of a Glue version or a GUID,
//! `6a8bf3d2c1e04957.avsc` that of an Avro fingerprint: sixteen hexadecimal digits, the number's highest first (in a record they
//! stand the other way round). Anything else is a name, with its ending or without it. `.proto`, `.avsc` and `.json` say what a
//! file holds. What a `.proto` file imports is looked for below the folder.
//!
//! The versions of a name are the schemas of ids, a later one under a higher id. Which ids are a name's, the file `NAME.ids` says, one a
//! line, which [`Registrar::register`] keeps. Without it they are all that have the same ending, where the folder has no other name of
//! that ending; where it has, they may be another's, and none is taken for a version.

mod registrar;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use async_trait::async_trait;
use codec::framing::Reference;
use codec::schema::{Import, Kind, Registered};
use tokio::io::AsyncReadExt as _;

use crate::{Error, Registrar, Source, TEXT_BYTES_MAX, Wanted};

const ENDINGS: [(&str, Kind); 3] = [("proto", Kind::Protobuf), ("avsc", Kind::Avro), ("json", Kind::Json)];

/// The ending of what says which ids are a name's.
const IDS: &str = "ids";

/// The most files that one schema may import.
const IMPORTS_MAX: usize = 200;

/// A folder of schema files.
#[derive(Clone, Debug)]
pub struct Folder {
    name: String,
    root: PathBuf,
}

impl Folder {
    /// A folder, and what the environment calls it.
    #[must_use]
    pub fn new(name: impl Into<String>, root: impl Into<PathBuf>) -> Self {
        Self { name: name.into(), root: root.into() }
    }

    fn garbage(&self, wanted: &Wanted, message: String) -> Error {
        Error::Garbage { registry: self.name.clone(), wanted: wanted.clone(), message }
    }

    fn not_found(&self, wanted: &Wanted) -> Error {
        Error::NotFound { registries: format!("the registry `{}`", self.name), wanted: wanted.clone() }
    }

    /// The ending of the file of a name, where there is one.
    async fn ending(&self, wanted: &Wanted, name: &str) -> Result<Option<&'static str>, Error> {
        for (ending, _) in ENDINGS {
            if self.read(wanted, &file_of(name, ending)).await?.is_some() {
                return Ok(Some(ending));
            }
        }
        Ok(None)
    }

    /// The ids of a name's versions, as its file of them has them; none where it has no such file.
    async fn ids_of(&self, wanted: &Wanted, name: &str, ending: &str) -> Result<Option<Vec<u32>>, Error> {
        let file = ids_file(name, ending);
        let Some(text) = self.read(wanted, &file).await? else { return Ok(None) };
        let id = |word: &str| {
            number(word).ok_or_else(|| self.garbage(wanted, format!("{file} has `{word}`, which is no id")))
        };
        text.split_whitespace().map(id).collect::<Result<_, _>>().map(Some)
    }

    /// Its files by stem and ending, in no order; none where there is no such folder.
    async fn listed(&self, wanted: &Wanted) -> Result<Vec<(String, String)>, Error> {
        let outage = |error: std::io::Error| Error::Outage {
            registry: self.name.clone(),
            wanted: wanted.clone(),
            message: format!("{} can't be listed: {error}", self.root.display()),
        };
        let mut entries = match tokio::fs::read_dir(&self.root).await {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(outage(error)),
        };
        let mut found = Vec::new();
        while let Some(entry) = entries.next_entry().await.map_err(outage)? {
            let name = entry.file_name();
            if let Some((stem, ending)) = name.to_str().and_then(|name| name.rsplit_once('.')) {
                found.push((stem.to_owned(), ending.to_owned()));
            }
        }
        Ok(found)
    }

    /// A file's text, where there is such a file.
    async fn read(&self, wanted: &Wanted, name: &str) -> Result<Option<String>, Error> {
        if !is_inside(name) {
            return Ok(None);
        }
        let file = self.root.join(name);
        let outage = |error: std::io::Error| Error::Outage {
            registry: self.name.clone(),
            wanted: wanted.clone(),
            message: format!("{} can't be read: {error}", file.display()),
        };
        let mut opened = match tokio::fs::File::open(&file).await {
            Ok(opened) => opened.take(TEXT_BYTES_MAX as u64 + 1),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
            Err(error) => return Err(outage(error)),
        };
        let mut bytes = Vec::new();
        match opened.read_to_end(&mut bytes).await {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::IsADirectory => return Ok(None),
            Err(error) => return Err(outage(error)),
        }
        if bytes.len() > TEXT_BYTES_MAX {
            return Err(self.garbage(wanted, format!("{} has more than {TEXT_BYTES_MAX} bytes", file.display())));
        }
        let text = String::from_utf8(bytes);
        text.map(Some).map_err(|_| self.garbage(wanted, format!("{} is not UTF-8", file.display())))
    }

    /// The files below the folder that a `.proto` text imports, what is imported first. Those that are not there are left to
    /// the compiler, which has some of its own.
    async fn imports(&self, wanted: &Wanted, text: &str) -> Result<Vec<Import>, Error> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        let mut open: Vec<String> = imported(text);
        while let Some(name) = open.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            if seen.len() > IMPORTS_MAX {
                return Err(self.garbage(wanted, format!("it imports more than {IMPORTS_MAX} files")));
            }
            if let Some(text) = self.read(wanted, &name).await? {
                open.extend(imported(&text));
                found.push(Import { name, text });
            }
        }
        found.reverse();
        Ok(found)
    }
}

#[async_trait]
impl Source for Folder {
    fn name(&self) -> &str {
        &self.name
    }

    fn keeps(&self, _: &Wanted) -> bool {
        true
    }

    fn registrar(&self) -> Option<&dyn Registrar> {
        Some(self)
    }

    async fn schema(&self, wanted: &Wanted) -> Result<Registered, Error> {
        let stem = match wanted {
            Wanted::Version(name, id) => {
                let Some(ending) = self.ending(wanted, name).await? else { return Err(self.not_found(wanted)) };
                format!("{id}.{ending}")
            }
            Wanted::Named(Reference::GlueVersion(id) | Reference::ConfluentGuid(id)) => id.to_string(),
            Wanted::Named(Reference::ConfluentId(id)) => id.to_string(),
            Wanted::Named(Reference::AvroFingerprint(crc)) => format!("{crc:016x}"),
            Wanted::Latest(name) => name.clone(),
        };
        let mut found = None;
        for (ending, kind) in ENDINGS {
            let name = file_of(&stem, ending);
            if let Some(text) = self.read(wanted, &name).await?
                && let Some((earlier, ..)) = found.replace((name, kind, text))
            {
                let name = found.map(|(name, ..)| name).unwrap_or_default();
                return Err(self.garbage(wanted, format!("{earlier} and {name} are both there")));
            }
        }
        let Some((_, kind, text)) = found else { return Err(self.not_found(wanted)) };
        let imports = if kind == Kind::Protobuf { self.imports(wanted, &text).await? } else { Vec::new() };
        Ok(Registered { kind, text, imports, version: None })
    }

    async fn versions(&self, name: &str) -> Result<Vec<u32>, Error> {
        let wanted = Wanted::Latest(name.to_owned());
        let Some(ending) = self.ending(&wanted, name).await? else { return Err(self.not_found(&wanted)) };
        if let Some(ids) = self.ids_of(&wanted, name, ending).await? {
            return Ok(ids);
        }
        let stems = self.listed(&wanted).await?.into_iter().filter(|(_, of)| of == ending).map(|(stem, _)| stem);
        let (ids, names): (Vec<String>, Vec<String>) = stems.partition(|stem| is_id(stem));
        if names.iter().any(|other| file_of(other, ending) != file_of(name, ending)) {
            return Ok(Vec::new());
        }
        // What is found by a number is read under it.
        Ok(ids.iter().filter_map(|stem| number(stem)).collect())
    }
}

/// The file of a name, which may have the ending already.
fn file_of(name: &str, ending: &str) -> String {
    let is_whole = Path::new(name).extension().is_some_and(|given| given == ending);
    if is_whole { name.to_owned() } else { format!("{name}.{ending}") }
}

/// The file of the ids of a name, which may have the ending already.
fn ids_file(name: &str, ending: &str) -> String {
    Path::new(&file_of(name, ending)).with_extension(IDS).to_string_lossy().into_owned()
}

/// Whether a file's stem is what a record names a schema by, and no name.
fn is_id(stem: &str) -> bool {
    let is_fingerprint = stem.len() == 16 && stem.bytes().all(|byte| byte.is_ascii_hexdigit());
    stem.bytes().all(|byte| byte.is_ascii_digit()) || is_fingerprint || uuid::Uuid::try_parse(stem).is_ok()
}

/// The id that a file's stem is, as ids are written and not otherwise.
fn number(stem: &str) -> Option<u32> {
    stem.parse().ok().filter(|id: &u32| id.to_string() == stem)
}

/// Whether a name leads to nothing outside of the folder.
fn is_inside(name: &str) -> bool {
    !name.is_empty() && Path::new(name).components().all(|part| matches!(part, Component::Normal(_)))
}

/// The names in a `.proto` text's import statements.
pub(crate) fn imported(text: &str) -> Vec<String> {
    let plain = without_comments(text);
    let statements = plain.split(';').filter_map(|statement| {
        let rest = statement.trim().strip_prefix("import")?.trim_start();
        let rest = ["public", "weak"].iter().find_map(|word| rest.strip_prefix(word)).unwrap_or(rest).trim();
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        rest.strip_prefix(quote)?.strip_suffix(quote).map(str::to_owned)
    });
    statements.collect()
}

fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    let mut quote = None;
    while let Some(next) = rest.chars().next() {
        let after = rest.get(next.len_utf8()..).unwrap_or("");
        rest = match (quote, next) {
            (None, '/') if after.starts_with('/') => after.find('\n').and_then(|end| after.get(end..)).unwrap_or(""),
            (None, '/') if after.starts_with('*') => after.split_once("*/").map_or("", |(_, behind)| behind),
            (None, '"' | '\'') => {
                quote = Some(next);
                plain.push(next);
                after
            }
            (Some(_), '\n') => {
                quote = None;
                plain.push(next);
                after
            }
            (Some(open), _) => {
                quote = quote.filter(|_| next != open);
                plain.push(next);
                after
            }
            (None, _) => {
                plain.push(next);
                after
            }
        };
    }
    plain
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn files_are_found_by_what_they_are_called() {
        let around = tempfile::tempdir().unwrap();
        let folder = around.path().join("schemas");
        std::fs::create_dir(&folder).unwrap();
        for (name, text) in [
            ("42.avsc", "\"string\""),
            ("5c0ffee5-0000-4000-8000-0000000000a1.proto", "message A {}"),
            ("00000000000000ff.avsc", "\"int\""),
            ("Employee.json", "{}"),
            ("both.json", "{}"),
            ("both.avsc", "{}"),
            ("../outside.json", "{}"),
        ] {
            std::fs::write(folder.join(name), text).unwrap();
        }
        std::fs::write(folder.join("odd.avsc"), [0xFF]).unwrap();
        std::fs::create_dir(folder.join("folder.json")).unwrap();
        let source = Folder::new("mine", &folder);
        let check = async |wanted: Wanted, expected: Result<(Kind, &str), &str>| {
            let found = source.schema(&wanted).await.map(|schema| (schema.kind, schema.text));
            match (found, expected) {
                (Ok((kind, text)), Ok(expected)) => assert_eq!((kind, text.as_str()), expected, "{wanted}"),
                (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error}"),
                (found, _) => panic!("{wanted}: {found:?}"),
            }
        };
        let uuid = Uuid::from_u128(0x5c0f_fee5_0000_4000_8000_0000_0000_00a1);
        check(Reference::ConfluentId(42).into(), Ok((Kind::Avro, "\"string\""))).await;
        check(Reference::ConfluentId(43).into(), Err("the schema id 43 is not known to the registry `mine`")).await;
        check(Reference::GlueVersion(uuid).into(), Ok((Kind::Protobuf, "message A {}"))).await;
        check(Reference::ConfluentGuid(uuid).into(), Ok((Kind::Protobuf, "message A {}"))).await;
        check(Reference::AvroFingerprint(255).into(), Ok((Kind::Avro, "\"int\""))).await;
        let latest = |name: &str| Wanted::Latest(name.to_owned());
        check(latest("Employee"), Ok((Kind::Json, "{}"))).await;
        check(latest("Employee.json"), Ok((Kind::Json, "{}"))).await;
        check(latest("Employee.avsc"), Err("not known")).await;
        check(latest("both"), Err("both there")).await;
        check(latest("odd"), Err("not UTF-8")).await;
        check(latest("folder"), Err("not known")).await;
        for name in ["../outside", "", ".", "/etc/passwd", "42.avsc/x", "a\0b"] {
            let found = source.schema(&latest(name)).await;
            assert!(matches!(found, Err(Error::NotFound { .. } | Error::Outage { .. })), "{name:?}: {found:?}");
        }
    }

    #[tokio::test]
    async fn versions_are_the_ids_of_the_names_ending() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["r.avsc", "p.proto", "10.avsc", "2.avsc", "2.proto", "02.avsc", "4294967296.avsc", "5avsc"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        let source = Folder::new("mine", folder.path());
        let check = async |name: &str, expected: &[u32]| {
            let mut found = source.versions(name).await.unwrap();
            found.sort_unstable();
            assert_eq!(found, expected, "{name}");
        };
        check("r", &[2, 10]).await;
        check("r.avsc", &[2, 10]).await;
        check("p", &[2]).await;
        // Another name's may be among them: which are whose is said, or none is anybody's.
        std::fs::write(folder.path().join("other.avsc"), "other.avsc").unwrap();
        std::fs::write(folder.path().join("+3.proto"), "+3.proto").unwrap();
        check("r", &[]).await;
        check("p", &[]).await;
        std::fs::write(folder.path().join("r.ids"), "2\n\n11\n").unwrap();
        check("r", &[2, 11]).await;
        check("r.avsc", &[2, 11]).await;
        check("other", &[]).await;
        std::fs::write(folder.path().join("other.ids"), "2 x").unwrap();
        let garbage = source.versions("other").await.unwrap_err().to_string();
        assert!(garbage.contains("other.ids has `x`"), "{garbage}");
        assert!(matches!(source.versions("x").await, Err(Error::NotFound { .. })));
        let version = |name: &str, id| Wanted::Version(name.to_owned(), id);
        assert_eq!(source.schema(&version("r", 2)).await.unwrap().text, "2.avsc");
        assert_eq!(source.schema(&version("p", 2)).await.unwrap().text, "2.proto");
        assert!(matches!(source.schema(&version("p", 10)).await, Err(Error::NotFound { .. })));
    }

    #[tokio::test]
    async fn imports_come_along() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("p")).unwrap();
        for (name, text) in [
            ("main.proto", "import \"p/a.proto\"; import 'google/protobuf/any.proto'; message M {}"),
            ("p/a.proto", "/* import \"no.proto\"; */ // import \"no.proto\";\nimport public \"p/b.proto\";"),
            ("p/b.proto", "import \"main.proto\"; import \"../p/b.proto\"; option x = \"; import 'no.proto'\";"),
            ("no.proto", ""),
        ] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let schema = Folder::new("mine", folder.path()).schema(&Wanted::Latest("main".to_owned())).await.unwrap();
        let names: Vec<_> = schema.imports.iter().map(|import| import.name.as_str()).collect();
        assert_eq!(names, ["main.proto", "p/b.proto", "p/a.proto"]);
    }

    #[test]
    fn import_statements_are_found_where_they_stand() {
        let check = |text: &str, expected: &[&str]| assert_eq!(imported(text), expected, "{text}");
        check(
            "syntax = \"proto3\"; import \"a.proto\";import weak 'b.proto' ; message importer {}",
            &["a.proto", "b.proto"],
        );
        check("import\n \"a.proto\"\n;", &["a.proto"]);
        check("// import \"a.proto\";\n/* import \"b.proto\"; ", &[]);
        check("option o = \"http://x\"; import \"a.proto\";", &["a.proto"]);
        check("import \"a.proto", &[]);
        check("import", &[]);
    }
}
