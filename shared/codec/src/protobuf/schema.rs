//! Message descriptors, from `.proto` text or a serialised `FileDescriptorSet`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use prost::Message as _;
use prost_reflect::prost_types::{FileDescriptorProto, FileDescriptorSet};
use prost_reflect::{DescriptorPool, FileDescriptor, MessageDescriptor};
use protox::Compiler;
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};
use sha2::{Digest, Sha256};

use super::bundled::Bundled;
use crate::{Error, file, naming};

/// Loads the descriptor of the message that a pipeline names.
///
/// A `.proto` file's folder is the root that its imports are looked up from; `google/protobuf/*.proto` and
/// `google/type/*.proto` need not be there. A descriptor set must hold every file that its files import.
///
/// # Errors
/// [`Error::Read`] when the file can't be read, [`Error::Schema`] when it is not usable (editions among them: proto2
/// and proto3 are what is read), [`Error::UnknownMessage`] with the names there are, [`Error::Registered`] when it is none
/// of this machine's files.
pub fn load(schema: &pipeline::resolved::Schema) -> Result<MessageDescriptor, Error> {
    match schema {
        pipeline::resolved::Schema::Proto { path, message } => {
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .ok_or_else(|| Error::Schema { path: path.clone(), message: "it has no file name".to_owned() })?;
            // Read here for the system's own answer: the compiler's says less.
            let text = file::text(path)?;
            let root = path.parent().unwrap_or_else(|| Path::new(""));
            let sources = Sources { given: BTreeMap::from([(name.to_owned(), text)]), root: Some(root.to_owned()) };
            compile(path, name, sources, message)
        }
        pipeline::resolved::Schema::Descriptor { path, message } => descriptor_set(path, &file::bytes(path)?, message),
        pipeline::resolved::Schema::Avro { path } => {
            Err(Error::Schema { path: path.clone(), message: "it is an Avro schema, and protobuf is read".to_owned() })
        }
        pipeline::resolved::Schema::Json { path } => {
            Err(Error::Schema { path: path.clone(), message: "it is a JSON Schema, and protobuf is read".to_owned() })
        }
        pipeline::resolved::Schema::Declared => {
            Err(Error::Schema { path: PathBuf::new(), message: "there is none, and protobuf takes one".to_owned() })
        }
        pipeline::resolved::Schema::Registered { name, .. } => Err(Error::Registered { name: name.clone() }),
    }
}

/// Compiles `.proto` texts held in memory: `files` are import name and text, the first is the message's own.
///
/// # Errors
/// As [`load`], without [`Error::Read`].
pub fn from_text(files: &[(&str, &str)], message: &str) -> Result<MessageDescriptor, Error> {
    let name = files.first().map_or("", |(name, _)| name);
    let given = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    compile(Path::new(name), name, Sources { given, root: None }, message)
}

/// Names a schema's content: SHA-256, in hexadecimal, of the serialised `FileDescriptorSet` of the message's file and
/// everything that it imports, imports first, without comments and positions.
#[must_use]
pub fn digest(message: &MessageDescriptor) -> String {
    fn collect(file: &FileDescriptor, seen: &mut BTreeSet<String>, set: &mut FileDescriptorSet) {
        if seen.insert(file.name().to_owned()) {
            for import in file.dependencies() {
                collect(&import, seen, set);
            }
            let proto = FileDescriptorProto { source_code_info: None, ..file.file_descriptor_proto().clone() };
            set.file.push(proto);
        }
    }
    let mut set = FileDescriptorSet::default();
    collect(&message.parent_file(), &mut BTreeSet::new(), &mut set);
    Sha256::digest(set.encode_to_vec()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn compile(path: &Path, name: &str, sources: Sources, message: &str) -> Result<MessageDescriptor, Error> {
    let unusable = |error: protox::Error| Error::Schema { path: path.to_owned(), message: format!("{error:?}") };
    find(path, &pool(name, sources).map_err(unusable)?, Some(name), message)
}

/// Compiles the file of a name and everything that it imports.
pub(super) fn pool(name: &str, sources: Sources) -> Result<DescriptorPool, protox::Error> {
    let mut resolver = ChainFileResolver::new();
    resolver.add(sources);
    resolver.add(GoogleFileResolver::new());
    resolver.add(Bundled);
    let mut compiler = Compiler::with_file_resolver(resolver);
    compiler.include_imports(true).open_file(name)?;
    Ok(compiler.descriptor_pool())
}

fn descriptor_set(path: &Path, bytes: &[u8], message: &str) -> Result<MessageDescriptor, Error> {
    let unusable = |message: String| Error::Schema { path: path.to_owned(), message };
    let set = FileDescriptorSet::decode(bytes)
        .map_err(|error| unusable(format!("it is not a serialised FileDescriptorSet ({error})")))?;
    for file in &set.file {
        known_syntax(file).map_err(unusable)?;
    }
    let pool = DescriptorPool::decode(bytes).map_err(|error| unusable(format!("{error:?}")))?;
    find(path, &pool, None, message)
}

fn find(path: &Path, pool: &DescriptorPool, own: Option<&str>, name: &str) -> Result<MessageDescriptor, Error> {
    if let Some(found) = pool.get_message_by_name(name) {
        return Ok(found);
    }
    // Maps have messages that nobody writes down; the well-known files are seldom meant.
    let mut available: Vec<(bool, String)> = pool
        .all_messages()
        .filter(|known| !known.is_map_entry() && known.package_name() != "google.protobuf")
        .map(|known| (own != Some(known.parent_file().name()), known.full_name().to_owned()))
        .collect();
    available.sort();
    let available: Vec<String> = available.into_iter().map(|(_, name)| name).collect();
    // A name without its package is the commonest mistake.
    let suffix = format!(".{name}");
    let nearest = available
        .iter()
        .find(|known| known.ends_with(&suffix))
        .map(String::as_str)
        .or_else(|| naming::nearest(name, available.iter().map(String::as_str)))
        .map(str::to_owned);
    Err(Error::UnknownMessage { path: path.to_owned(), name: name.to_owned(), nearest, available })
}

/// Only these are read, and the descriptor library panics at others.
fn known_syntax(file: &FileDescriptorProto) -> Result<(), String> {
    match file.syntax.as_deref() {
        None | Some("proto2" | "proto3") => Ok(()),
        // What `protoc` writes for `edition = "…"`; the number of the edition is not part of these descriptor types.
        Some("editions") => Err(editions(file.name())),
        Some(_) => Err(format!("{} is of an unknown syntax", file.name())),
    }
}

fn editions(file: &str) -> String {
    format!("{file} is written in an edition; only `syntax = \"proto2\"` and `syntax = \"proto3\"` are read")
}

/// Files given as text, then those below a folder.
pub(super) struct Sources {
    pub(super) given: BTreeMap<String, String>,
    pub(super) root: Option<PathBuf>,
}

impl FileResolver for Sources {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        let text = match (self.given.get(name), &self.root) {
            (Some(text), _) => text.clone(),
            (None, Some(root)) => match file::read(&root.join(name)) {
                Ok(bytes) => String::from_utf8(bytes)
                    .map_err(|error| protox::Error::new(format!("{name} can't be read: {}", error.utf8_error())))?,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    return Err(protox::Error::file_not_found(name));
                }
                Err(error) => return Err(protox::Error::new(format!("{name} can't be read: {error}"))),
            },
            (None, None) => return Err(protox::Error::file_not_found(name)),
        };
        if let Some(file) = serialized(name, &text)? {
            return Ok(file);
        }
        if first_word(&text) == "edition" {
            return Err(protox::Error::new(editions(name)));
        }
        File::from_source(name, &text)
    }
}

/// A serialised `FileDescriptorProto` in base64: what clients register that have no text, and what registries then give
/// out. No text of protobuf has letters, digits, `+` and `/` alone.
fn serialized(name: &str, text: &str) -> Result<Option<File>, protox::Error> {
    let text = text.trim_ascii();
    let base64 = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
    if text.is_empty() || !text.as_bytes().iter().all(base64) {
        return Ok(None);
    }
    let wrong = || protox::Error::new(format!("{name} is neither text nor a serialised FileDescriptorProto"));
    let bytes = base64_simd::STANDARD.decode_to_vec(text).map_err(|_| wrong())?;
    let mut file = FileDescriptorProto::decode(&bytes[..]).map_err(|_| wrong())?;
    file.name = Some(name.to_owned());
    known_syntax(&file).map_err(protox::Error::new)?;
    Ok(Some(File::from_file_descriptor_proto(file)))
}

/// The first word that is not in a comment: a file's `syntax` or `edition` comes before everything else.
fn first_word(text: &str) -> &str {
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    loop {
        let after = if rest.starts_with("//") {
            rest.split_once('\n')
        } else if rest.starts_with("/*") {
            rest.split_once("*/")
        } else {
            return rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or("");
        };
        let Some((_, after)) = after else { return "" };
        rest = after.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use model::failure::Kind;
    use pipeline::resolved::Schema;

    use super::*;

    const TEAM: &str = "syntax = \"proto3\"; package p; message Team { string name = 1; }";
    const MAIN: &str = "// a comment\nsyntax = \"proto3\"; package p; import \"team.proto\"; import \"google/protobuf/timestamp.proto\";
        message Employee { Team team = 1; google.protobuf.Timestamp at = 2; message Inner { map<string, int32> m = 1; } }";

    #[test]
    fn a_proto_file_is_read_with_its_imports_and_as_a_descriptor_set() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("main.proto");
        std::fs::write(&path, MAIN).unwrap();
        std::fs::write(folder.path().join("team.proto"), TEAM).unwrap();
        let proto = load(&Schema::Proto { path, message: "p.Employee.Inner".to_owned() }).unwrap();
        assert_eq!(proto.full_name(), "p.Employee.Inner");

        let set = folder.path().join("set.desc");
        std::fs::write(&set, proto.parent_pool().encode_to_vec()).unwrap();
        let loaded = load(&Schema::Descriptor { path: set, message: "p.Employee".to_owned() }).unwrap();
        let texts = [("main.proto", MAIN), ("team.proto", TEAM)];
        let memory = from_text(&texts, "p.Employee").unwrap();
        for other in [&proto, &loaded, &memory] {
            assert_eq!(digest(other), digest(&memory));
        }
        assert_eq!(digest(&memory).len(), 64);
        let renumbered = TEAM.replace("name = 1", "name = 2");
        let changed = from_text(&[("main.proto", MAIN), ("team.proto", &renumbered)], "p.Employee").unwrap();
        assert_ne!(digest(&changed), digest(&memory));
    }

    #[test]
    fn a_wrong_schema_says_what_is_wrong() {
        let check = |files: &[(&str, &str)], message: &str, expected: &[&str]| {
            let error = from_text(files, message).unwrap_err();
            assert_eq!(error.kind(), Kind::Misconfigured);
            let text = error.to_string();
            for part in expected {
                assert!(text.contains(part), "{text}\nlacks: {part}");
            }
        };
        let both = [("main.proto", MAIN), ("team.proto", TEAM)];
        check(&both, "Employee", &["no message `Employee`", "did you mean `p.Employee`", "p.Team"]);
        check(&both, "p.Emploee", &["did you mean `p.Employee`"]);
        check(&both, "zzz", &["it has p.Employee, p.Employee.Inner, p.Team"]);
        check(&[("main.proto", MAIN)], "p.Employee", &["team.proto", "not found"]);
        check(&[("a.proto", "syntax = \"proto3\";\nmessage A {\n  int32 x = ;\n}")], "A", &["a.proto:3"]);
        check(&[("a.proto", "syntax = \"proto3\"; message A { Nothing x = 1; }")], "A", &["Nothing"]);
        check(&[("a.proto", "/* x */ // y\n edition = \"2023\"; message A {}")], "A", &["a.proto", "edition"]);
        let importing = "syntax = \"proto3\"; import \"e.proto\"; message A {}";
        check(&[("a.proto", importing), ("e.proto", "edition = \"2023\";")], "A", &["e.proto", "edition"]);
        check(&[], "A", &["not usable"]);
    }

    #[test]
    fn a_wrong_file_says_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let descriptor = Schema::Descriptor { path: path.clone(), message: "A".to_owned() };
        assert!(matches!(load(&descriptor), Err(Error::Read { .. })));
        assert!(matches!(
            load(&Schema::Proto { path: path.clone(), message: "A".to_owned() }),
            Err(Error::Read { .. })
        ));
        // Not only pipes would be waited for: nothing that is no file is opened.
        let (main, folder_proto) = (folder.path().join("main.proto"), folder.path().join("d.proto"));
        std::fs::create_dir(&folder_proto).unwrap();
        std::fs::write(&main, "syntax = \"proto3\"; import \"d.proto\"; message A {}").unwrap();
        for proto in [folder_proto, main] {
            let error = load(&Schema::Proto { path: proto, message: "A".to_owned() }).unwrap_err();
            let text = format!("{error} {:?}", std::error::Error::source(&error));
            assert!(text.contains("no file, but a folder, a pipe"), "{text}");
        }
        std::fs::write(&path, "not a descriptor set").unwrap();
        assert!(load(&descriptor).unwrap_err().to_string().contains("FileDescriptorSet"));
        let set = FileDescriptorSet {
            file: vec![FileDescriptorProto {
                name: Some("e.proto".to_owned()),
                syntax: Some("editions".to_owned()),
                ..Default::default()
            }],
        };
        std::fs::write(&path, set.encode_to_vec()).unwrap();
        assert!(load(&descriptor).unwrap_err().to_string().contains("e.proto is written in an edition"));
        for syntax in ["", "proto4"] {
            let mut set = set.clone();
            set.file[0].syntax = Some(syntax.to_owned());
            std::fs::write(&path, set.encode_to_vec()).unwrap();
            assert!(load(&descriptor).unwrap_err().to_string().contains("unknown syntax"));
        }
    }
}
