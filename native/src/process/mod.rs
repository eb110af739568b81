//! Commands: how they start, what they write, how their groups end.

pub mod actor;
pub mod capture;
pub mod child;
pub mod exec;
mod group;
pub mod log;
#[cfg(test)]
mod log_model_tests;
mod output;
pub mod reap;
pub mod request;
pub mod ring;
pub mod spawner;
pub mod spooler;
pub mod stack;
pub mod standing;
mod stdin;
pub mod store;
