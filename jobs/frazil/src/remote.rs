//! Places that are not on this machine, as far as this build knows them: S3 and Glue, with the feature `aws`.

use std::sync::Arc;

use iceberg::io::FileIO;
use model::clock::Clock;
use model::id::Ids;
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
        let client = self.s3.get_or_try_init(aws::s3::S3::connect).await;
        client.map_err(|e| {
            let failure = Failure::of(e.kind(), "aws.settings", &e);
            failure.remedy("set region and credentials as for any AWS SDK: AWS_REGION, AWS_PROFILE, a role")
        })
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
    pub(crate) async fn glue(
        &self,
        _: Option<String>,
        _: String,
        _: FileIO,
        _: (Arc<dyn Clock>, Arc<dyn Ids>),
    ) -> Result<Arc<dyn Catalog>, table::catalog::Error> {
        let why = "this build of frazil leaves AWS out: build it with its feature `aws`, as `cargo frazil` does";
        Err(table::catalog::Error::failed(model::failure::Kind::Misconfigured, why))
    }
}

#[cfg(not(feature = "aws"))]
fn left_out(place: &str) -> Failure {
    Failure::usage("environment.left_out", "this build of frazil leaves AWS out")
        .at(place)
        .remedy("build it with its feature `aws`, as `cargo frazil` does")
}
