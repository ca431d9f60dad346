//! Schemas put into a registry.

use std::collections::BTreeMap;

use async_trait::async_trait;
use codec::framing::Reference;
use codec::schema::{Kind, Registered};
use percent_encoding::utf8_percent_encode;
use serde::Serialize;

use super::answer::{self, Placed};
use super::{Confluent, ENCODED};
use crate::files::imported;
use crate::registrar::{Naming, Registrar};
use crate::{Error, Wanted};

/// A schema as it is sent.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    schema: &'a str,
    schema_type: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    references: Vec<answer::Reference>,
}

impl Confluent {
    async fn post(&self, subject: &str, path: &str, body: &Body<'_>) -> Result<Placed, Error> {
        let wanted = Wanted::Latest(subject.to_owned());
        let body = serde_json::to_string(body)
            .map_err(|error| self.garbage(&wanted, format!("the request can't be made: {error}")))?;
        let path = format!("/subjects/{}{path}", utf8_percent_encode(subject, ENCODED));
        let (status, kind, body) = self.request(&wanted, &path, Some(body)).await?;
        answer::placed(status, kind.as_ref(), &body).map_err(|message| self.garbage(&wanted, message))
    }

    /// Looks for a schema, and adds it first where it is to be added: its id and version.
    async fn place(&self, subject: &str, body: &Body<'_>, add: bool) -> Result<Option<(u32, Option<u32>)>, Error> {
        if add && let Placed::Refused(message) = self.post(subject, "/versions", body).await? {
            return Err(self.refused(subject, message));
        }
        match self.post(subject, "", body).await? {
            // The same text is another schema where it refers to others, whatever a registry makes of that.
            Placed::At { references: Some(found), .. } if !same(&found, &body.references) => Ok(None),
            Placed::At { id, version, .. } => Ok(Some((id, version))),
            Placed::NotThere => Ok(None),
            Placed::Refused(message) => Err(self.refused(subject, message)),
        }
    }

    async fn put(
        &self,
        name: &str,
        schema: &Registered,
        naming: Naming,
        add: bool,
    ) -> Result<Option<Reference>, Error> {
        if naming != Naming::Number {
            return Err(self.refused(name, "it knows schemas by numbers alone".to_owned()));
        }
        let schema_type = match schema.kind {
            Kind::Protobuf => "PROTOBUF",
            Kind::Avro => "AVRO",
            Kind::Json => "JSON",
        };
        if schema.kind != Kind::Protobuf && !schema.imports.is_empty() {
            let message = "it refers to others, whose subjects nothing tells: register it by Confluent's own tools";
            return Err(self.refused(name, message.to_owned()));
        }
        // What protobuf imports is a subject of the import's name, as Confluent's own serializers have it; it comes first.
        let mut known: BTreeMap<&str, answer::Reference> = BTreeMap::new();
        for import in &schema.imports {
            let references =
                imported(&import.text).iter().filter_map(|name| known.get(name.as_str()).cloned()).collect();
            let body = Body { schema: &import.text, schema_type, references };
            let Some((_, version)) = self.place(&import.name, &body, add).await? else { return Ok(None) };
            let Some(version) = version else {
                let wanted = Wanted::Latest(import.name.clone());
                return Err(self.garbage(&wanted, "it tells no version".to_owned()));
            };
            let (name, subject) = (import.name.clone(), import.name.clone());
            known.insert(&import.name, answer::Reference { name, subject, version });
        }
        let references = imported(&schema.text).iter().filter_map(|name| known.get(name.as_str()).cloned()).collect();
        let body = Body { schema: &schema.text, schema_type, references };
        Ok(self.place(name, &body, add).await?.map(|(id, _)| Reference::ConfluentId(id)))
    }

    fn refused(&self, name: &str, message: String) -> Error {
        let message = self.struck(message);
        Error::Refused { registry: self.name.clone(), name: name.to_owned(), message }
    }
}

/// Whether these are the same, in whatever order.
fn same(found: &[answer::Reference], sent: &[answer::Reference]) -> bool {
    found.len() == sent.len() && found.iter().all(|reference| sent.contains(reference))
}

#[async_trait]
impl Registrar for Confluent {
    async fn find(&self, name: &str, schema: &Registered, naming: Naming) -> Result<Option<Reference>, Error> {
        self.put(name, schema, naming, false).await
    }

    async fn register(&self, name: &str, schema: &Registered, naming: Naming) -> Result<Reference, Error> {
        let placed = self.put(name, schema, naming, true).await?;
        placed.ok_or_else(|| {
            let wanted = Wanted::Latest(name.to_owned());
            self.garbage(&wanted, "it took the schema, and does not find it".to_owned())
        })
    }
}
