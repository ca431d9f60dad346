//! AWS: what frazil's traits are on its services. The only crate that names the AWS SDK.
//!
//! Entry point: [`s3::S3`], one client, made from the SDK's own chain of settings and credentials. [`s3::S3::store`]
//! makes a `staging` store of a bucket; with the feature `storage`, [`s3::S3::file_io`] makes Iceberg's files of it.
//! [`msk::Signer`] makes tokens for the brokers of Amazon MSK. [`schemas::GlueSchemas`] is `registry`'s source over the
//! Glue Schema Registry. [`catalog::glue::GlueCatalog`] is `table`'s catalog over the
//! Glue Data Catalog, [`catalog::s3tables::S3TablesCatalog`] over S3 Tables.
//!
//! Every feature stands alone, so that ingest takes the store and never links `iceberg`. Nothing here reads the
//! environment but the SDK, and nothing here says a secret: messages hold names, codes and what the service wrote.

#[cfg(feature = "catalog")]
pub mod catalog;
#[cfg(feature = "msk")]
pub mod msk;
#[cfg(any(feature = "catalog", feature = "registry"))]
mod refusal;
#[cfg(feature = "store")]
pub mod s3;
#[cfg(feature = "registry")]
pub mod schemas;
#[cfg(any(feature = "msk", feature = "registry", feature = "store"))]
mod sdk;
