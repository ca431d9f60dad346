//! What tests share: fakes that keep their contract, faults that a seed repeats, and one contract suite per trait.
//!
//! Only ever a dev-dependency.

pub mod catalog;
pub mod store_contract;
pub mod store_faulty;
pub mod store_memory;
