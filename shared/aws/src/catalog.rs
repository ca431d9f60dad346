//! Iceberg's catalogs on AWS.
//!
//! Each call is one attempt: of a commit that was sent again after a lost answer nobody could say any more whether it was its own first
//! attempt that stands in its way. What a failure means is told by [`table::catalog::Error`]'s kinds.

mod fault;
pub mod glue;
mod hive;
pub mod rest;
pub mod s3tables;

use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;

/// How long a call of AWS's own catalogs may take. They answer in tenths of seconds; a late answer to a swap is one that nobody heard.
const CALL: Duration = Duration::from_secs(20);

/// Settings under which a call is made once: a second attempt would find the first in its way.
fn one_attempt(shared: SdkConfig) -> SdkConfig {
    let timeouts = shared.timeout_config().map_or_else(TimeoutConfig::builder, TimeoutConfig::to_builder);
    let timeouts = timeouts.operation_attempt_timeout(CALL).operation_timeout(CALL).build();
    shared.into_builder().timeout_config(timeouts).retry_config(RetryConfig::disabled()).build()
}
