//! Schemas put into a folder: under what records name them by, and as the newest of a name.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use codec::framing::Reference;
use codec::schema::{Kind, Registered};
use tokio::io::AsyncWriteExt as _;
use uuid::Uuid;

use super::{ENDINGS, Folder, file_of, ids_file, is_inside, number};
use crate::registrar::{Naming, Registrar};
use crate::{Error, Wanted};

/// Files of a folder that are looked at. Whoever keeps more has a registry.
const FILES_MAX: usize = 10_000;

impl Folder {
    fn refused(&self, name: &str, message: String) -> Error {
        Error::Refused { registry: self.name.clone(), name: name.to_owned(), message }
    }

    /// Its files by stem and ending, in order.
    async fn ids(&self, wanted: &Wanted) -> Result<Vec<(String, String)>, Error> {
        let mut found = self.listed(wanted).await?;
        if found.len() > FILES_MAX {
            return Err(self.garbage(wanted, format!("there are more than {FILES_MAX} files")));
        }
        found.sort();
        Ok(found)
    }

    /// What records name a schema by that is there, under whatever name. A name of another kind does not count.
    async fn known(&self, wanted: &Wanted, schema: &Registered, naming: Naming) -> Result<Option<Reference>, Error> {
        for (stem, ending) in self.ids(wanted).await? {
            let is_of_kind = ENDINGS.iter().any(|(known, kind)| *known == ending && *kind == schema.kind);
            let Some(reference) = reference(&stem, naming).filter(|_| is_of_kind) else { continue };
            // A fingerprint is of what texts have in common that are read alike.
            if matches!(naming, Naming::Fingerprint(_))
                || self.read(wanted, &format!("{stem}.{ending}")).await?.is_some_and(|text| text == schema.text)
            {
                return Ok(Some(reference));
            }
        }
        Ok(None)
    }

    /// Whether all that a schema imports is there as the schema has it.
    async fn has_imports(&self, wanted: &Wanted, schema: &Registered) -> Result<bool, Error> {
        for import in &schema.imports {
            if self.read(wanted, &import.name).await?.is_none_or(|text| text != import.text) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes a file that is not there; `false` where it is. It is there whole or not at all.
    async fn add(&self, name: &str, file: &str, text: &str) -> Result<bool, Error> {
        let path = self.root.join(file);
        let fault = |error: std::io::Error| self.unwritable(name, &path, &error);
        let part = self.part(name, &path, text).await?;
        // A link does not take the place of what is there.
        let linked = tokio::fs::hard_link(&part, &path).await;
        tokio::fs::remove_file(&part).await.map_err(fault)?;
        match linked {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(fault(error)),
        }
    }

    /// Writes a file, or another in its place. It is there whole at any time.
    async fn put(&self, name: &str, file: &str, text: &str) -> Result<(), Error> {
        let path = self.root.join(file);
        let part = self.part(name, &path, text).await?;
        tokio::fs::rename(&part, &path).await.map_err(|error| self.unwritable(name, &path, &error))
    }

    /// Writes what will be a file beside where it will be.
    async fn part(&self, name: &str, path: &Path, text: &str) -> Result<PathBuf, Error> {
        let fault = |error: std::io::Error| self.unwritable(name, path, &error);
        if let Some(folder) = path.parent() {
            tokio::fs::create_dir_all(folder).await.map_err(fault)?;
        }
        let mut part = path.as_os_str().to_owned();
        // No ending of a schema's: nobody reads it.
        part.push(format!(".{}.part", std::process::id()));
        tokio::fs::write(&part, text).await.map_err(fault)?;
        Ok(part.into())
    }

    /// Notes that an id is a version of a name.
    async fn note(&self, name: &str, ending: &str, id: u32) -> Result<(), Error> {
        let (wanted, file) = (Wanted::Latest(name.to_owned()), ids_file(name, ending));
        if self.ids_of(&wanted, name, ending).await?.is_some_and(|ids| ids.contains(&id)) {
            return Ok(());
        }
        let path = self.root.join(file);
        let fault = |error: std::io::Error| self.unwritable(name, &path, &error);
        // At the end, so that what somebody else notes at once stays.
        let mut opened = tokio::fs::OpenOptions::new().append(true).create(true).open(&path).await.map_err(fault)?;
        opened.write_all(format!("{id}\n").as_bytes()).await.map_err(fault)?;
        opened.flush().await.map_err(fault)
    }

    fn unwritable(&self, name: &str, path: &Path, error: &std::io::Error) -> Error {
        self.refused(name, format!("{} can't be written: {error}", path.display()))
    }
}

/// The ending of a kind's files.
fn ending(kind: Kind) -> &'static str {
    ENDINGS.iter().find(|(_, of)| *of == kind).map_or("", |(ending, _)| *ending)
}

/// The name that a file's stem is, where it is of this kind.
fn reference(stem: &str, naming: Naming) -> Option<Reference> {
    match naming {
        Naming::Number => number(stem).map(Reference::ConfluentId),
        Naming::Version(_) => Uuid::try_parse(stem).ok().map(Reference::GlueVersion),
        Naming::Fingerprint(crc) => (format!("{crc:016x}") == stem).then_some(Reference::AvroFingerprint(crc)),
    }
}

#[async_trait]
impl Registrar for Folder {
    async fn find(&self, name: &str, schema: &Registered, naming: Naming) -> Result<Option<Reference>, Error> {
        let wanted = Wanted::Latest(name.to_owned());
        let ending = ending(schema.kind);
        // A name that is not there has no versions.
        if self.read(&wanted, &file_of(name, ending)).await?.is_none() {
            return Ok(None);
        }
        // The same text is another schema where it imports others.
        if !self.has_imports(&wanted, schema).await? {
            return Ok(None);
        }
        let known = self.known(&wanted, schema, naming).await?;
        let ids = self.ids_of(&wanted, name, ending).await?;
        let is_ours = |reference: &Reference| match (reference, &ids) {
            (Reference::ConfluentId(id), Some(ids)) => ids.contains(id),
            // Of which name it is nothing says.
            _ => true,
        };
        Ok(known.filter(is_ours))
    }

    async fn register(&self, name: &str, schema: &Registered, naming: Naming) -> Result<Reference, Error> {
        let wanted = Wanted::Latest(name.to_owned());
        let ending = ending(schema.kind);
        if !is_inside(name) {
            return Err(self.refused(name, "a file of that name would be elsewhere".to_owned()));
        }
        for import in &schema.imports {
            if self.read(&wanted, &import.name).await?.is_some_and(|text| text != import.text) {
                return Err(self.refused(name, format!("it imports `{}`, which is another file there", import.name)));
            }
        }
        for import in schema.imports.iter().filter(|import| is_inside(&import.name)) {
            self.add(name, &import.name, &import.text).await?;
        }
        let reference = match self.known(&wanted, schema, naming).await? {
            Some(known) => known,
            None => {
                let numbers = self.ids(&wanted).await?.into_iter().filter_map(|(stem, _)| stem.parse::<u32>().ok());
                let mut number = numbers.max().unwrap_or(0);
                loop {
                    number = number.saturating_add(1);
                    let reference = match naming {
                        Naming::Number => Reference::ConfluentId(number),
                        Naming::Version(id) => Reference::GlueVersion(id),
                        Naming::Fingerprint(crc) => Reference::AvroFingerprint(crc),
                    };
                    if self.add(name, &format!("{}.{ending}", reference.id()), &schema.text).await? {
                        break reference;
                    }
                    // Somebody else took the number meanwhile; other names are taken once and for all.
                    if naming != Naming::Number || number == u32::MAX {
                        return Err(self.refused(name, format!("{}.{ending} is there already", reference.id())));
                    }
                }
            }
        };
        self.put(name, &file_of(name, ending), &schema.text).await?;
        if let Reference::ConfluentId(id) = reference {
            self.note(name, ending, id).await?;
        }
        Ok(reference)
    }
}

#[cfg(test)]
mod tests {
    use codec::schema::Import;

    use super::*;
    use crate::Source as _;

    fn schema(text: &str) -> Registered {
        Registered { kind: Kind::Avro, text: text.to_owned(), imports: Vec::new(), version: None }
    }

    #[tokio::test]
    async fn what_is_put_in_is_found_by_its_ids_and_as_the_newest_of_its_name() {
        let around = tempfile::tempdir().unwrap();
        let folder = Folder::new("mine", around.path().join("registry"));
        let (first, second) = (schema("\"string\""), schema("\"int\""));
        assert_eq!(folder.find("t-value", &first, Naming::Number).await, Ok(None));
        let check = async |schema: &Registered, naming, expected| {
            assert_eq!(folder.register("t-value", schema, naming).await, Ok(expected));
            assert_eq!(folder.find("t-value", schema, naming).await, Ok(Some(expected)));
            assert_eq!(folder.schema(&Wanted::Latest("t-value".to_owned())).await.as_ref(), Ok(schema));
            assert_eq!(folder.schema(&expected.into()).await.as_ref(), Ok(schema));
        };
        check(&first, Naming::Number, Reference::ConfluentId(1)).await;
        check(&second, Naming::Number, Reference::ConfluentId(2)).await;
        check(&first, Naming::Number, Reference::ConfluentId(1)).await;
        // What another name is registered under is no version of this one, unless it is the same text.
        let third = schema("\"long\"");
        assert_eq!(folder.register("u-value", &third, Naming::Number).await, Ok(Reference::ConfluentId(3)));
        assert_eq!(folder.register("u-value", &first, Naming::Number).await, Ok(Reference::ConfluentId(1)));
        assert_eq!(folder.versions("t-value").await, Ok(vec![1, 2]));
        assert_eq!(folder.versions("u-value").await, Ok(vec![3, 1]));
        assert_eq!(folder.find("u-value", &second, Naming::Number).await, Ok(None), "it is another name's");
        let id = Uuid::from_u128(7);
        check(&second, Naming::Version(id), Reference::GlueVersion(id)).await;
        // One that is there keeps its own.
        check(&second, Naming::Version(Uuid::from_u128(8)), Reference::GlueVersion(id)).await;
        check(&first, Naming::Fingerprint(255), Reference::AvroFingerprint(255)).await;
        // Under another name it is not there before it is put there, and keeps its id.
        assert_eq!(folder.find("other-value", &first, Naming::Number).await, Ok(None));
        assert_eq!(folder.register("other-value", &first, Naming::Number).await, Ok(Reference::ConfluentId(1)));
        assert_eq!(folder.find("other-value", &first, Naming::Number).await, Ok(Some(Reference::ConfluentId(1))));
        assert_eq!(folder.schema(&Wanted::Latest("other-value".to_owned())).await.as_ref(), Ok(&first));
        for name in ["../out", "", "/etc/x"] {
            let refused = folder.register(name, &first, Naming::Number).await;
            assert!(matches!(refused, Err(Error::Refused { .. })), "{name}: {refused:?}");
        }
        assert_eq!(std::fs::read_dir(around.path()).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn imports_go_in_and_are_never_exchanged() {
        let around = tempfile::tempdir().unwrap();
        let folder = Folder::new("mine", around.path());
        let with = |text: &str| Registered {
            kind: Kind::Protobuf,
            text: "import \"p/a.proto\"; message M {}".to_owned(),
            imports: vec![Import { name: "p/a.proto".to_owned(), text: text.to_owned() }],
            version: None,
        };
        let first = with("message A {}");
        let reference = folder.register("m.proto", &first, Naming::Number).await.unwrap();
        assert_eq!(folder.schema(&reference.into()).await.as_ref(), Ok(&first));
        assert_eq!(folder.register("m.proto", &first, Naming::Number).await, Ok(reference));
        // With another import it is not the schema that the id is of.
        let other = with("message B {}");
        assert_eq!(folder.find("m.proto", &first, Naming::Number).await, Ok(Some(reference)));
        assert_eq!(folder.find("m.proto", &other, Naming::Number).await, Ok(None));
        let refused = folder.register("m.proto", &other, Naming::Number).await.unwrap_err();
        assert!(refused.to_string().contains("`p/a.proto`, which is another"), "{refused}");
    }
}
