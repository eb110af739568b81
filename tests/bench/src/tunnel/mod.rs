//! The two ends of a tunnel.

pub mod client;
pub mod guest;
