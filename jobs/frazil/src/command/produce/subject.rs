//! What records are of: a schema, the format and the framing, and what the records name the schema by.

use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;
use codec::framing::Reference;
use codec::payload::Schema;
use codec::schema::{Kind, Registered};
use codec::{avro, protobuf};
use model::failure::Kind as Failing;
use pipeline::environment::{Environment, Registry};
use pipeline::resolved::{self, Format, Indexes, Pipeline};
use prost_reflect::MessageDescriptor;
use registry::files::Folder;
use registry::{Naming, Source, Wanted};
use uuid::Uuid;

use crate::Session;
use crate::arguments::{Form, Produce, Written};
use crate::command::ingest::failed;
use crate::encoding::Encoder;
use crate::manners::failure::Failure;

/// Employee records in each format.
const PROTO: &str = include_str!("../../../../../proto/employee.proto");
const AVRO: &str = include_str!("../../../../../proto/employee.avsc");
const JSON: &str = include_str!("../../../../../proto/employee.json");
const MESSAGE: &str = "gsr.proto.post.Employee";

/// A schema in a form.
pub(super) struct Subject {
    pub(super) format: Format,
    pub(super) form: Form,
    pub(super) indexes: Indexes,
    pub(super) encoder: Encoder,
    /// The schema as registries keep it; why there is none.
    text: Result<Registered, &'static str>,
    /// The CRC-64-AVRO of an Avro schema.
    fingerprint: u64,
    /// The name that the pipeline knows it by, and the registries.
    name: Option<String>,
    registries: Vec<String>,
    /// Whether the records are bare Employee messages, which the generator writes by itself.
    pub(super) is_generated: bool,
}

/// What records name their schema by.
pub(super) struct Known {
    /// None where they name none, or, of a dry run, where it would be registered first.
    pub(super) reference: Option<Reference>,
    /// Whether it was registered for them, or would be.
    pub(super) is_new: bool,
}

/// What a registry was asked, before anything is put into it.
pub(super) enum Looked {
    /// It has the schema, or none has to.
    Known(Option<Reference>),
    /// It has not, and is to get it.
    Missing { source: Arc<dyn Source>, subject: String, naming: Naming },
}

impl Subject {
    /// Of Employee records.
    pub(super) fn employee(arguments: &Produce) -> Result<Self, Failure> {
        let form = arguments.framing.unwrap_or(Form::Bare);
        let text = |kind, text: &str| Registered { kind, text: text.to_owned(), imports: Vec::new(), version: None };
        let bug = |error: &dyn std::error::Error| Failure::of(Failing::Bug, "produce.employee", error);
        let written = arguments.format.unwrap_or(Written::Protobuf);
        let (format, text, schema) = match written {
            Written::Protobuf => {
                let message =
                    protobuf::schema::from_text(&[("employee.proto", PROTO)], MESSAGE).map_err(|e| bug(&e))?;
                (Format::Protobuf, text(Kind::Protobuf, PROTO), Some(Schema::Protobuf(message)))
            }
            Written::Avro => {
                let schema = avro::Schema::parse(AVRO, &[]).map_err(|e| bug(&e))?;
                (Format::Avro, text(Kind::Avro, AVRO), Some(Schema::Avro(schema)))
            }
            Written::Json => (Format::Json, text(Kind::Json, JSON), None),
        };
        let encoder = encoder(schema.as_ref(), Ok(&text))?;
        fits(form, format)?;
        Ok(Self {
            is_generated: format == Format::Protobuf && form == Form::Bare,
            format,
            form,
            indexes: Indexes::default(),
            encoder,
            fingerprint: schema.as_ref().and_then(Schema::fingerprint).unwrap_or_default(),
            text: Ok(text),
            name: None,
            registries: Vec::new(),
        })
    }

    /// Of a pipeline's schema.
    ///
    /// # Errors
    /// When it or its registry can't be used; where the framing is left open.
    pub(super) async fn of(
        pipeline: &Pipeline,
        arguments: &Produce,
        environment: &Environment,
        session: &Session<'_>,
    ) -> Result<Self, Failure> {
        let value = &pipeline.value;
        let form = match (arguments.framing, Form::of(value.framing)) {
            (Some(form), _) | (None, Some(form)) => form,
            (None, None) => {
                return Err(Failure::usage("produce.framing", "the pipeline takes records in any framing")
                    .at("--framing")
                    .remedy("say which one to send: --framing bare, confluent, confluent-header, glue, glue-zlib or avro-single-object"));
            }
        };
        fits(form, value.format)?;
        let (mut name, mut registries) = (None, Vec::new());
        let (schema, text) = match &value.schema {
            resolved::Schema::Registered { name: known, registries: kept, .. } => {
                (name, registries) = (Some(known.clone()), kept.clone());
                let asked = ingest::registries(pipeline, environment, &session.variable, session.clock.clone());
                let asked = Box::pin(asked).await.map_err(|e| failed(&e))?;
                let schema = ingest::own_schema(pipeline, &asked).await.map_err(|e| failed(&e))?.schema;
                let text = asked.schema(&Wanted::Latest(known.clone())).await.map_err(|e| failed(&e.into()))?;
                (schema, Ok(Registered::clone(&text)))
            }
            resolved::Schema::Declared => {
                (schema(pipeline)?, Err("columns are no schema: name one with `json_schema`"))
            }
            resolved::Schema::Descriptor { .. } => (
                schema(pipeline)?,
                Err("registries keep .proto texts, and a descriptor set has none: name the .proto file"),
            ),
            resolved::Schema::Proto { path, .. }
            | resolved::Schema::Avro { path }
            | resolved::Schema::Json { path } => (schema(pipeline)?, Ok(of_file(path).await?)),
        };
        let encoder = encoder(Some(&schema), text.as_ref().map_err(|why| *why))?;
        if let (Encoder::Protobuf(message), resolved::Schema::Proto { path, .. }) = (&encoder, &value.schema)
            && form != Form::Bare
            && Path::new(message.parent_file().name()).file_name() != path.file_name()
        {
            // Their numbers are of the file that is registered.
            let (name, file) = (message.full_name(), message.parent_file().name().to_owned());
            return Err(Failure::usage("produce.message", format!("`{name}` stands in `{file}`, which the schema imports"))
                .at("value.schema")
                .remedy("name that file, or the message that it is a part of: records tell messages of the registered file apart"));
        }
        Ok(Self {
            format: value.format,
            form,
            indexes: value.indexes,
            encoder,
            fingerprint: schema.fingerprint().unwrap_or_default(),
            text,
            name,
            registries,
            is_generated: false,
        })
    }

    /// The form's word.
    pub(super) fn form_name(&self) -> String {
        self.form.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The message that payloads are, of protobuf.
    pub(super) const fn message(&self) -> Option<&MessageDescriptor> {
        match &self.encoder {
            Encoder::Protobuf(message) => Some(message),
            Encoder::Avro(_) | Encoder::Json => None,
        }
    }

    /// Looks for what records name the schema by.
    ///
    /// # Errors
    /// When no registry can be asked, or it has no such schema and none is to be registered.
    pub(super) async fn look(
        &self,
        arguments: &Produce,
        topic: &str,
        environment: &Environment,
        session: &Session<'_>,
    ) -> Result<Looked, Failure> {
        let id = Uuid::from_bytes(session.ids.uuid());
        let naming = match self.form.naming(id, self.fingerprint) {
            Some(naming @ Naming::Fingerprint(_)) if !arguments.register => {
                return Ok(Looked::Known(Some(naming.sample())));
            }
            Some(naming) => naming,
            None if arguments.register => {
                return Err(Failure::usage("produce.framing", "bare records name no schema that could be registered")
                    .at("--register")
                    .remedy(
                        "say how they name one: --framing confluent, confluent-header, glue or avro-single-object",
                    ));
            }
            None => return Ok(Looked::Known(None)),
        };
        let text = self.text()?;
        let (name, settings) = self.registry(arguments, naming, environment)?;
        let source = Box::pin(ingest::source(name, settings, &session.variable)).await.map_err(|e| failed(&e))?;
        let registrar = source.registrar().filter(|_| source.keeps(&Wanted::Named(naming.sample())));
        let registrar = registrar.ok_or_else(|| {
            Failure::usage("produce.registry", format!("the registry `{name}` names no schema as this framing does"))
                .at("--registry")
                .remedy("name another registry, or another --framing")
        })?;
        let is_glue = matches!(settings, Registry::Glue { .. });
        let subject = arguments.subject.clone().or_else(|| self.name.clone());
        let subject = subject.unwrap_or_else(|| if is_glue { topic.to_owned() } else { format!("{topic}-value") });
        if let Some(reference) = registrar.find(&subject, text, naming).await.map_err(|e| refused(&e))? {
            return Ok(Looked::Known(Some(reference)));
        }
        if arguments.register {
            return Ok(Looked::Missing { source, subject, naming });
        }
        let message = format!("the registry `{name}` has not this schema under `{subject}`");
        Err(Failure::usage("produce.unregistered", message)
            .remedy("register it: --register; or say where it is: --subject, --registry"))
    }

    /// What records name the schema by, once it is registered where it was missing; a dry run registers nothing.
    ///
    /// # Errors
    /// When the registry does not take it.
    pub(super) async fn known(&self, looked: Looked, dry_run: bool) -> Result<Known, Failure> {
        let (source, subject, naming) = match looked {
            Looked::Known(reference) => return Ok(Known { reference, is_new: false }),
            Looked::Missing { .. } if dry_run => return Ok(Known { reference: None, is_new: true }),
            Looked::Missing { source, subject, naming } => (source, subject, naming),
        };
        let bug = || Failure::new(Failing::Bug, "produce.registry", "a registry was found that takes no schemas");
        let registrar = source.registrar().ok_or_else(bug)?;
        let reference = registrar.register(&subject, self.text()?, naming).await.map_err(|e| refused(&e))?;
        Ok(Known { reference: Some(reference), is_new: true })
    }

    /// The schema as registries keep it.
    fn text(&self) -> Result<&Registered, Failure> {
        self.text.as_ref().map_err(|why| {
            Failure::usage("produce.schema", "the pipeline's schema can't be in a registry").remedy(*why)
        })
    }

    /// The registry that is meant.
    fn registry<'e>(
        &self,
        arguments: &Produce,
        naming: Naming,
        environment: &'e Environment,
    ) -> Result<(&'e str, &'e Registry), Failure> {
        let known: Vec<&str> = environment.registries.keys().map(String::as_str).collect();
        let names: Vec<&str> = match (&arguments.registry, self.registries.is_empty()) {
            (Some(name), _) => vec![name.as_str()],
            (None, false) => self.registries.iter().map(String::as_str).collect(),
            (None, true) => known.clone(),
        };
        let is_asked = arguments.registry.is_some();
        let fits = |registry: &Registry| match registry {
            Registry::Files { .. } => true,
            Registry::Confluent { .. } => naming == Naming::Number,
            Registry::Glue { .. } => matches!(naming, Naming::Version(_)),
        };
        let found = names.iter().filter_map(|name| environment.registries.get_key_value(*name));
        let mut found = found.filter(|(_, registry)| is_asked || fits(registry));
        match (found.next(), found.next(), self.registries.is_empty()) {
            // Of those that the pipeline names, in its order.
            (Some((name, registry)), None, _) | (Some((name, registry)), Some(_), false) => Ok((name, registry)),
            (None, ..) => {
                let message = match &arguments.registry {
                    Some(name) => format!("the environment `{}` has no registry `{name}`", environment.name),
                    None => "the environment has no registry that names schemas as this framing does".to_owned(),
                };
                Err(Failure::usage("produce.registry", message)
                    .at("--registry")
                    .remedy(format!("name one under `registries` of frazil.toml; there are: {}", known.join(", "))))
            }
            (Some(_), Some(_), true) => Err(Failure::usage("produce.registry", "there are several registries")
                .at("--registry")
                .remedy(format!("say which one knows the schema: {}", known.join(", ")))),
        }
    }
}

/// A registry's failure where schemas are put into it.
fn refused(error: &registry::Error) -> Failure {
    let failure = Failure::of(error.kind(), "registry", error);
    match error.kind() {
        Failing::Misconfigured => {
            failure.remedy("see the registry's block in frazil.toml, --subject, and what the registry allows")
        }
        _ => failure,
    }
}

fn fits(form: Form, format: Format) -> Result<(), Failure> {
    match form.refusal(format) {
        Some(reason) => Err(Failure::usage("produce.framing", reason).at("--framing").remedy("choose another framing")),
        None => Ok(()),
    }
}

fn schema(pipeline: &Pipeline) -> Result<Schema, Failure> {
    Schema::of(pipeline).map_err(|error| failed(&error.into()))
}

/// A schema's file with what it imports.
async fn of_file(path: &Path) -> Result<Registered, Failure> {
    let (folder, name) = (path.parent().unwrap_or(Path::new("")), path.file_name().unwrap_or_default());
    let wanted = Wanted::Latest(name.to_string_lossy().into_owned());
    let found = Arc::new(Folder::new("schemas", folder)).schema(&wanted).await;
    found.map_err(|error| {
        Failure::of(Failing::Misconfigured, "pipeline.schema", &error)
            .at(path.display().to_string())
            .remedy("give the file the ending of its kind: .proto, .avsc or .json")
    })
}

/// What makes payloads. `text` is there wherever Avro is.
fn encoder(schema: Option<&Schema>, text: Result<&Registered, &'static str>) -> Result<Encoder, Failure> {
    match (schema, text) {
        (Some(Schema::Protobuf(message)), _) => Ok(Encoder::Protobuf(message.clone())),
        (Some(Schema::Avro(_)), Ok(text)) => Encoder::avro(text).map_err(|misfit| {
            Failure::usage("pipeline.schema", misfit.to_string())
                .remedy("mend the schema, or the `[value]` block that names it")
        }),
        (Some(Schema::Avro(_)), Err(why)) => Err(Failure::new(Failing::Bug, "produce.schema", why)),
        (Some(Schema::Json(_)) | None, _) => Ok(Encoder::Json),
    }
}
