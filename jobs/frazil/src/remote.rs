//! Places that are not on this machine, as far as this build knows them: S3 and catalogs, with the feature `aws`.

use std::sync::Arc;

use iceberg::io::FileIO;
use model::clock::Clock;
use model::id::Ids;
use model::secret::Secret;
#[cfg(feature = "aws")]
use pipeline::environment::RestAuth;
use pipeline::environment::SecretReference;
use staging::store::Store;
use table::catalog::Catalog;

use crate::manners::failure::Failure;

/// The way there, opened when it is first needed: a command on local folders asks for no credentials.
#[derive(Debug, Default)]
pub(crate) struct Remote {
    #[cfg(feature = "aws")]
    s3: tokio::sync::OnceCell<aws::s3::S3>,
}

#[cfg(feature = "aws")]
impl Remote {
    /// One client for store and tables.
    async fn s3(&self) -> Result<&aws::s3::S3, Failure> {
        self.s3.get_or_try_init(aws::s3::S3::connect).await.map_err(|e| Self::unset(&e))
    }

    fn unset(error: &aws::s3::ConnectError) -> Failure {
        let failure = Failure::of(error.kind(), "aws.settings", error);
        failure.remedy("set region and credentials as for any AWS SDK: AWS_REGION, AWS_PROFILE, a role")
    }

    /// The store of a bucket.
    ///
    /// # Errors
    /// When no client can be made, or the bucket or prefix can't hold a store.
    pub(crate) async fn store(&self, bucket: &str, prefix: &str) -> Result<Arc<dyn Store>, Failure> {
        let store = self.s3().await?.store(bucket, prefix).map_err(|e| crate::environment::stored(&e))?;
        Ok(Arc::new(store))
    }

    /// Iceberg's files in buckets.
    ///
    /// # Errors
    /// When no client can be made.
    pub(crate) async fn file_io(&self) -> Result<FileIO, Failure> {
        Ok(self.s3().await?.file_io())
    }

    /// Iceberg's files in buckets of one region, whatever the settings say of theirs.
    ///
    /// # Errors
    /// When no client can be made.
    pub(crate) async fn file_io_in(&self, region: &str) -> Result<FileIO, Failure> {
        let client = aws::s3::S3::connect_in(Some(region)).await;
        Ok(client.map_err(|e| Self::unset(&e))?.file_io())
    }

    /// A table bucket of S3 Tables.
    ///
    /// # Errors
    /// None yet: nothing is asked of it.
    pub(crate) async fn s3tables(
        &self,
        bucket_arn: String,
        region: String,
        io: FileIO,
        (clock, ids): (Arc<dyn Clock>, Arc<dyn Ids>),
    ) -> Result<Arc<dyn Catalog>, table::catalog::Error> {
        use aws::catalog::s3tables::{S3TablesCatalog, TableBucket};
        let bucket = TableBucket { arn: bucket_arn, region };
        Ok(Arc::new(S3TablesCatalog::connect(bucket, io, clock, ids).await))
    }

    /// The Glue Data Catalog, under whose `warehouse` tables are made.
    ///
    /// # Errors
    /// When no region is known.
    pub(crate) async fn glue(
        &self,
        region: Option<String>,
        warehouse: String,
        io: FileIO,
        (clock, ids): (Arc<dyn Clock>, Arc<dyn Ids>),
    ) -> Result<Arc<dyn Catalog>, table::catalog::Error> {
        let access = aws::catalog::glue::Access { region, catalog_id: None, warehouse };
        Ok(Arc::new(aws::catalog::glue::GlueCatalog::connect(access, io, clock, ids).await?))
    }

    /// A catalog that speaks REST, with what the variables hold that its secrets are in.
    ///
    /// # Errors
    /// When its settings can't be used, or a secret is not there.
    pub(crate) async fn rest(
        &self,
        settings: &pipeline::environment::Rest,
        secret: &(dyn Fn(&SecretReference) -> Result<Secret, Failure> + Sync),
        (clock, ids): (Arc<dyn Clock>, Arc<dyn Ids>),
    ) -> Result<Arc<dyn Catalog>, Failure> {
        use aws::catalog::rest::{Auth, RestCatalog, Settings};
        let auth = match &settings.auth {
            RestAuth::Nothing => Auth::Nothing,
            RestAuth::Token(reference) => Auth::Token(secret(reference)?),
            RestAuth::OAuth2 { secret: reference, scope, server } => {
                Auth::OAuth2 { credential: secret(reference)?, scope: scope.clone(), server: server.clone() }
            }
            RestAuth::SigV4 { service, region } => Auth::SigV4 { service: service.clone(), region: region.clone() },
        };
        let settings = Settings { uri: settings.url.clone(), warehouse: settings.warehouse.clone(), auth };
        let catalog = RestCatalog::connect(settings, clock, ids).await.map_err(|e| crate::tables::failed(&e))?;
        Ok(Arc::new(catalog))
    }
}

#[cfg(not(feature = "aws"))]
impl Remote {
    /// Refused.
    pub(crate) async fn store(&self, bucket: &str, prefix: &str) -> Result<Arc<dyn Store>, Failure> {
        Err(left_out(&format!("s3://{bucket}/{prefix}")))
    }

    /// Refused.
    pub(crate) async fn file_io(&self) -> Result<FileIO, Failure> {
        Err(left_out("s3://"))
    }

    /// Refused.
    pub(crate) async fn file_io_in(&self, _: &str) -> Result<FileIO, Failure> {
        Err(left_out("s3tables:"))
    }

    /// Refused.
    pub(crate) async fn s3tables(
        &self,
        _: String,
        _: String,
        _: FileIO,
        _: (Arc<dyn Clock>, Arc<dyn Ids>),
    ) -> Result<Arc<dyn Catalog>, table::catalog::Error> {
        Err(catalog_left_out())
    }

    /// Refused.
    pub(crate) async fn glue(
        &self,
        _: Option<String>,
        _: String,
        _: FileIO,
        _: (Arc<dyn Clock>, Arc<dyn Ids>),
    ) -> Result<Arc<dyn Catalog>, table::catalog::Error> {
        Err(catalog_left_out())
    }

    /// Refused.
    pub(crate) async fn rest(
        &self,
        _: &pipeline::environment::Rest,
        _: &(dyn Fn(&SecretReference) -> Result<Secret, Failure> + Sync),
        _: (Arc<dyn Clock>, Arc<dyn Ids>),
    ) -> Result<Arc<dyn Catalog>, Failure> {
        Err(left_out("catalog"))
    }
}

#[cfg(not(feature = "aws"))]
fn left_out(place: &str) -> Failure {
    Failure::usage("environment.left_out", "this build of frazil leaves AWS out")
        .at(place)
        .remedy("build it with its feature `aws`, as `cargo frazil` does")
}

#[cfg(not(feature = "aws"))]
fn catalog_left_out() -> table::catalog::Error {
    let why = "this build of frazil leaves AWS out: build it with its feature `aws`, as `cargo frazil` does";
    table::catalog::Error::failed(model::failure::Kind::Misconfigured, why)
}
