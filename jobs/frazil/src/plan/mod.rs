//! What a pipeline comes to, before anything runs: pure, from a file without faults and the table that is there.

pub(crate) mod ddl;
pub(crate) mod engines;
pub(crate) mod estimate;
pub(crate) mod live;
pub(crate) mod permissions;
pub(crate) mod remarks;
