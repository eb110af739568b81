//! Commands: how they start, what they write, how their groups end.

mod actor;
mod child;
mod chunks;
pub mod context;
pub mod exec;
mod group;
pub mod log;
#[cfg(test)]
mod log_model_tests;
#[cfg(test)]
mod log_tests;
mod pacing;
mod pipes;
pub mod proc_scan;
mod readers;
pub(crate) mod spawner;
pub mod spooler;
pub mod store;
pub mod supervisor;
