//! Messages of the `.proto` texts that registries hold.

use std::collections::BTreeMap;

use prost_reflect::{FileDescriptor, MessageDescriptor};

use super::schema::{Sources, pool};
use crate::framing::{Message, Path};
use crate::schema::{Kind, Registered};
use crate::{Class, Rejected};

/// What the text is called among the files it imports. Registries give it no name that could be imported.
const NAME: &str = "registered.proto";

/// How deep braces and brackets may nest: compilers descend by recursion.
const NESTING_MAX: usize = 100;

/// The messages of one registered schema.
#[derive(Clone, Debug)]
pub struct Messages {
    file: FileDescriptor,
    /// All of them by full name, those of map entries too: what Glue's numbers count.
    sorted: Vec<MessageDescriptor>,
}

impl Messages {
    /// Compiles a schema. What it imports is what the registry gave with it, `google/protobuf/*`, `google/type/*` and
    /// Confluent's own files.
    ///
    /// # Errors
    /// `incompatible_schema` when it is no protobuf, or not usable (editions among that): whoever registers a schema must
    /// not be able to stop the records of others, so that this is a fault of the records that name it.
    pub fn compile(schema: &Registered) -> Result<Self, Rejected> {
        if schema.kind != Kind::Protobuf {
            return Err(incompatible(format!("its schema is of {}, not of protobuf", schema.kind)));
        }
        let texts = || schema.imports.iter().map(|import| &import.text).chain([&schema.text]);
        if texts().any(|text| nesting(text) > NESTING_MAX) {
            return Err(incompatible(format!("its schema nests deeper than {NESTING_MAX} braces")));
        }
        let imports = schema.imports.iter().map(|import| (import.name.clone(), import.text.clone()));
        let given: BTreeMap<_, _> = imports.chain([(NAME.to_owned(), schema.text.clone())]).collect();
        let pool = pool(NAME, Sources { given, root: None })
            .map_err(|error| incompatible(format!("its schema is not usable: {error:?}")))?;
        let file = pool.get_file_by_name(NAME).ok_or_else(|| incompatible("its schema is not usable".to_owned()))?;
        let mut sorted = Vec::new();
        let mut below: Vec<MessageDescriptor> = file.messages().collect();
        while let Some(message) = below.pop() {
            below.extend(message.child_messages());
            sorted.push(message);
        }
        sorted.sort_by(|a, b| a.full_name().cmp(b.full_name()));
        // They can be written by hand, as AWS's serializer does, and then are whatever stands there.
        let entries = || pool.all_messages().filter(MessageDescriptor::is_map_entry);
        if let Some(odd) = entries().find(|entry| !is_pair(entry)) {
            return Err(incompatible(format!("its schema is not usable: `{}` is no entry of a map", odd.full_name())));
        }
        Ok(Self { file, sorted })
    }

    /// The message that a record is, and that the pipeline reads, where it names one. Where neither says, it is the
    /// file's only one.
    ///
    /// # Errors
    /// `bad_framing` when the schema has no such message: never is another one taken in its place;
    /// `incompatible_schema` when the record is of another message than the pipeline reads.
    pub fn message(&self, which: Message, named: Option<&str>) -> Result<MessageDescriptor, Rejected> {
        let found = match (which, named) {
            (Message::Sorted(number), _) => {
                let found = usize::try_from(number).ok().and_then(|number| self.sorted.get(number));
                found
                    .cloned()
                    .ok_or_else(|| self.missing(&format!("message number {number} in order of full names")))?
            }
            (Message::Declared(path), _) => {
                self.declared(&path).ok_or_else(|| self.missing(&format!("message at {path:?}")))?
            }
            (Message::Unsaid, Some(name)) => {
                let found = self.sorted.iter().find(|message| message.full_name() == name);
                return found.cloned().ok_or_else(|| incompatible(format!("its schema has no message `{name}`")));
            }
            (Message::Unsaid, None) => {
                let mut own = self.file.messages();
                match (own.next(), own.next()) {
                    (Some(only), None) => only,
                    _ => {
                        return Err(incompatible("its schema has several messages, and nothing says which".to_owned()));
                    }
                }
            }
        };
        match named {
            Some(name) if found.full_name() != name => {
                Err(incompatible(format!("it is a `{}`, and the pipeline reads `{name}`", found.full_name())))
            }
            // Its bytes would be those of a pair, and no serializer writes one by itself.
            _ if found.is_map_entry() => Err(self.missing(&format!("message of its own in `{}`", found.full_name()))),
            _ => Ok(found),
        }
    }

    /// Confluent's registry and its clients in Java count what is written down; clients that count descriptors (Python's
    /// among them) have the entries of a message's maps among the messages inside it. Only the latter write a path that
    /// leads nowhere by the former's count.
    fn declared(&self, path: &Path) -> Option<MessageDescriptor> {
        self.walk(path, false).or_else(|| self.walk(path, true)).filter(|found| !found.is_map_entry())
    }

    fn walk(&self, path: &Path, entries: bool) -> Option<MessageDescriptor> {
        let (first, inner) = path.places().split_first()?;
        let first = self.file.messages().nth(usize::from(*first))?;
        inner.iter().try_fold(first, |message, next| {
            message.child_messages().filter(|inner| entries || !inner.is_map_entry()).nth(usize::from(*next))
        })
    }

    fn missing(&self, what: &str) -> Rejected {
        let message = format!("its schema has no {what}; it has {} messages", self.sorted.len());
        Rejected { class: Class::BadFraming, path: String::new(), message }
    }
}

/// Whether a map's entry has a key and a value, and nothing else.
fn is_pair(entry: &MessageDescriptor) -> bool {
    use prost_reflect::Kind;
    let field = |number, name: &str| entry.get_field(number).filter(|field| field.name() == name && !field.is_list());
    let key = field(1, "key").is_some_and(|key| {
        !matches!(key.kind(), Kind::Double | Kind::Float | Kind::Bytes | Kind::Message(_) | Kind::Enum(_))
    });
    key && field(2, "value").is_some() && entry.fields().len() == 2
}

fn incompatible(message: String) -> Rejected {
    Rejected { class: Class::IncompatibleSchema, path: String::new(), message }
}

/// How deep braces and brackets nest, outside of comments and strings.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        let skip = |end: &[u8]| {
            after.windows(end.len()).position(|found| found == end).map_or(after.len(), |at| at + end.len())
        };
        let skipped = match (byte, after.first()) {
            (b'{' | b'[' | b'<', _) => {
                depth += 1;
                0
            }
            (b'}' | b']' | b'>', _) => {
                depth = depth.saturating_sub(1);
                0
            }
            (b'/', Some(b'/')) => skip(b"\n"),
            (b'/', Some(b'*')) => skip(b"*/"),
            (quote @ (b'"' | b'\''), _) => {
                // A string ends with its line, closed or not; what a backslash stands before is part of it.
                let mut escaped = false;
                let end = after.iter().position(|byte| {
                    let ends = !escaped && byte == quote || *byte == b'\n';
                    escaped = !escaped && *byte == b'\\';
                    ends
                });
                end.map_or(after.len(), |at| at + 1)
            }
            _ => 0,
        };
        deepest = deepest.max(depth);
        rest = after.get(skipped..).unwrap_or(&[]);
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Import;

    fn registered(text: &str, imports: &[(&str, &str)]) -> Registered {
        let imports = imports.iter().map(|(name, text)| Import { name: (*name).to_owned(), text: (*text).to_owned() });
        Registered { kind: Kind::Protobuf, text: text.to_owned(), imports: imports.collect(), version: None }
    }

    fn name(messages: &Messages, which: Message, named: Option<&str>) -> Result<String, Class> {
        messages.message(which, named).map(|found| found.full_name().to_owned()).map_err(|rejected| rejected.class)
    }

    /// The schema of the open case O-13, whose declarations are in no order.
    #[test]
    fn glue_numbers_messages_by_their_full_names_map_entries_among_them() {
        let messages = Messages::compile(&registered(
            "syntax = \"proto3\"; package shop;
             message Order { map<string, string> tags = 1; message Line { string sku = 1; int32 qty = 2; } }
             message Order2 { int32 no = 1; } message Account { int32 id = 1; }",
            &[],
        ))
        .unwrap();
        let check = |number, expected: Result<&str, Class>| {
            assert_eq!(name(&messages, Message::Sorted(number), None), expected.map(str::to_owned), "{number}");
        };
        check(0, Ok("shop.Account"));
        check(1, Ok("shop.Order"));
        check(2, Ok("shop.Order.Line"));
        check(3, Err(Class::BadFraming));
        check(4, Ok("shop.Order2"));
        check(5, Err(Class::BadFraming));
        check(u32::MAX, Err(Class::BadFraming));
        let other = name(&messages, Message::Sorted(0), Some("shop.Order"));
        assert_eq!(other, Err(Class::IncompatibleSchema));
        // In the order that AWS's encoder documents: B, B.A, B.A.D, B.C.
        let nested = "syntax = \"proto3\"; message B { message C {} message A { message D {} } } message BA {}";
        let nested = Messages::compile(&registered(nested, &[])).unwrap();
        let names: Vec<_> = (0..5).map(|n| name(&nested, Message::Sorted(n), None).unwrap()).collect();
        assert_eq!(names, ["B", "B.A", "B.A.D", "B.C", "BA"]);
    }

    #[test]
    fn confluent_walks_down_declarations() {
        let mut far = "syntax = \"proto3\"; package p; import \"b/beta.proto\"; import \"google/type/money.proto\";
            message Alpha { int32 n = 1; b.Other o = 2; google.type.Money m = 3; }
            message Beta { map<int32, int32> first = 1; message Gamma { string s = 1; message Delta {} } }"
            .to_owned();
        for n in 2..65 {
            far.push_str(&format!("message M{n} {{}} "));
        }
        let beta = ("b/beta.proto", "syntax = \"proto3\"; package b; import \"c.proto\"; message Other { c.C c = 1; }");
        let c = ("c.proto", "syntax = \"proto3\"; package c; message C {}");
        let messages = Messages::compile(&registered(&far, &[c, beta])).unwrap();
        let check = |places: &[u16], expected: Result<&str, Class>| {
            let which = Message::Declared(Path::new(places).unwrap());
            assert_eq!(name(&messages, which, None), expected.map(str::to_owned), "{places:?}");
        };
        check(&[0], Ok("p.Alpha"));
        check(&[1], Ok("p.Beta"));
        check(&[1, 0], Ok("p.Beta.Gamma"));
        check(&[1, 0, 0], Ok("p.Beta.Gamma.Delta"));
        check(&[64], Ok("p.M64"));
        check(&[65], Err(Class::BadFraming));
        check(&[0, 0], Err(Class::BadFraming));
        check(&[1, 0, 0, 0], Err(Class::BadFraming));
        // The map's entry is the first descriptor inside of Beta.
        check(&[1, 1], Ok("p.Beta.Gamma"));
        check(&[1, 1, 0], Ok("p.Beta.Gamma.Delta"));
        check(&[1, 2], Err(Class::BadFraming));
        check(&[u16::MAX], Err(Class::BadFraming));
    }

    #[test]
    fn without_a_word_from_the_framing_the_pipeline_says_or_there_is_one() {
        let one = Messages::compile(&registered("syntax = \"proto2\"; message A { message B {} }", &[])).unwrap();
        let two = Messages::compile(&registered("message A {} message B {}", &[])).unwrap();
        assert_eq!(name(&one, Message::Unsaid, None), Ok("A".to_owned()));
        assert_eq!(name(&one, Message::Unsaid, Some("A.B")), Ok("A.B".to_owned()));
        assert_eq!(name(&one, Message::Unsaid, Some("C")), Err(Class::IncompatibleSchema));
        assert_eq!(name(&two, Message::Unsaid, None), Err(Class::IncompatibleSchema));
    }

    #[test]
    fn a_schema_that_cannot_be_used_is_a_fault_of_the_records_that_name_it() {
        let check = |schema: &Registered, words: &str| {
            let rejected = Messages::compile(schema).unwrap_err();
            assert_eq!(rejected.class, Class::IncompatibleSchema);
            assert!(rejected.message.contains(words), "{rejected}");
        };
        check(&registered("syntax = \"proto3\"; message A {", &[]), "not usable");
        check(&registered("import \"no.proto\"; message A {}", &[]), "no.proto");
        check(&registered("AAAA", &[]), "neither text");
        check(&registered("AAA", &[]), "neither text");
        check(&registered("edition = \"2023\"; message A {}", &[]), "edition");
        check(&registered("import \"registered.proto\"; message A {}", &[]), "not usable");
        for entry in ["", "string key = 1;", "float key = 1; int32 value = 2;", "string key = 2; int32 value = 1;"] {
            let text =
                format!("message A {{ repeated AEntry a = 1; message AEntry {{ option map_entry = true; {entry} }} }}");
            check(&registered(&format!("syntax = \"proto3\"; {text}"), &[]), "no entry of a map");
        }
        check(&Registered { kind: Kind::Avro, ..registered("{}", &[]) }, "Avro");
        check(&registered(&"message A {".repeat(100_000), &[]), "nests deeper");
        check(&registered(&"message A { oneof ".repeat(99), &[]), "not usable");
        for opening in ["{ a: ", "{ a < a ", "[ ", "{ a [ "] {
            check(&registered(&format!("option (a) = {}", opening.repeat(100_000)), &[]), "nests deeper");
            check(&registered(&format!("option (a) = {}", opening.repeat(49)), &[]), "not usable");
        }
    }

    #[test]
    fn only_what_is_code_nests() {
        let check = |text: &str, expected: usize| assert_eq!(nesting(text), expected, "{text}");
        check("", 0);
        check("message A { map<string, int32> m = 1 [deprecated = true]; }", 2);
        check("a { b { } c { d [ ] } }", 3);
        check("// {{{\n/* {{{ * / */ { option x = \"{{\\\"{{\"; }", 1);
        check("'{' \"'{\" { '\\\\' { ' ", 2);
        check("} } {", 1);
        check("\"{ \n { /* {", 1);
        check("\u{e9} { \u{1F980}", 1);
    }

    /// Every field, as whatever plans columns looks at it.
    fn walk(messages: &Messages) {
        for message in &messages.sorted {
            for field in message.fields() {
                let _kind = (field.kind(), field.is_map(), field.is_list(), field.supports_presence());
                let _default = (field.default_value(), field.containing_oneof(), field.json_name().len());
                if let (true, prost_reflect::Kind::Message(entry)) = (field.is_map(), field.kind()) {
                    let _pair = (entry.map_entry_key_field(), entry.map_entry_value_field());
                }
            }
        }
    }

    fn golden() -> Vec<String> {
        let files = [
            include_str!("../../../../tests/golden/framing/glue.json"),
            include_str!("../../../../tests/golden/framing/confluent.json"),
        ];
        let schemas = files.iter().flat_map(|text| {
            let file: serde_json::Value = serde_json::from_str(text).unwrap();
            file["schemas"].as_object().unwrap().values().cloned().collect::<Vec<_>>()
        });
        let protobuf = schemas.filter(|schema| schema["kind"] == "PROTOBUF");
        protobuf.map(|schema| schema["text"].as_str().unwrap().to_owned()).collect()
    }

    proptest::proptest! {
        /// Whatever somebody registers is compiled or refused.
        #[test]
        fn any_schema_is_compiled_or_refused(
            which in 0..4_usize,
            changes in proptest::collection::vec((proptest::prelude::any::<proptest::sample::Index>(), 0..4_u8, proptest::prelude::any::<u8>()), 0..6),
        ) {
            let texts = golden();
            assert_eq!(texts.len(), 4);
            let text = &texts[which];
            let serialized = base64_simd::STANDARD.decode_to_vec(text).ok();
            let mut bytes = serialized.clone().unwrap_or_else(|| text.clone().into_bytes());
            for (at, what, byte) in changes {
                let at = at.index(bytes.len());
                match what {
                    0 => bytes[at] = byte,
                    1 => drop(bytes.remove(at)),
                    2 => bytes.insert(at, byte),
                    // A piece once more, somewhere else.
                    _ => {
                        let piece = bytes[at..(at + usize::from(byte)).min(bytes.len())].to_vec();
                        let to = usize::from(byte) * 7 % bytes.len();
                        bytes.splice(to..to, piece);
                    }
                }
            }
            let text = match serialized {
                Some(_) => base64_simd::STANDARD.encode_to_string(&bytes),
                None => String::from_utf8_lossy(&bytes).into_owned(),
            };
            if let Ok(messages) = Messages::compile(&registered(&text, &[])) {
                walk(&messages);
            }
        }
    }
}
