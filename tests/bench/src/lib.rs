//! Loads a daemon from outside, as its clients do: blocking sockets, one thread a client.
//!
//! Map:
//! - `http`, `sse`  as much of each as the daemon's answers need
//! - `client`, `daemon`  one client; one daemon process, its memory and descriptors
//! - `transfer`, `tunnel`  bodies of megabytes; both ends of a tunnel
//! - `limit`, `ssh`, `nginx`, `peer`  what is compared with: the kernel alone, OpenSSH, nginx
//! - `bench`  the measurements; `figures`, `report`  what becomes of them
//! - `soak`  commands of mixed kinds whose every output and exit is compared

pub mod bench;
pub mod client;
pub mod daemon;
pub mod figures;
pub mod http;
pub mod limit;
pub mod nginx;
pub mod peer;
pub mod report;
pub mod slow_disk;
pub mod soak;
pub mod sse;
pub mod ssh;
pub mod transfer;
pub mod tunnel;

/// Whatever went wrong, in words.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
/// A result whose failure is told to a person.
pub type Outcome<T> = Result<T, Failure>;
