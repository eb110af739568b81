//! Files on their way in and out: whole, confined to their target, never half.
//!
//! - `read`, `window`  a file's bytes, a window of its lines
//! - `target`, `parents`, `reserve`  where an upload goes and what it leaves alone
//! - `failure`  what went wrong, for the code and for people

pub mod failure;
pub mod parents;
pub mod read;
pub mod reserve;
pub mod target;
#[cfg(test)]
pub mod testing;
pub mod window;
