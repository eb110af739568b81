//! The native core of guestd: what only the guest's kernel can do.
//!
//! The core is mechanism. It knows file descriptors, process groups, bytes, offsets and clocks;
//! it knows no HTTP, no JSON, no slugs and no phases. What the protocol means is TypeScript.
//!
//! Map:
//! - `abi`      the border: panic guard, borrowed buffers, status codes
//! - `exports`  every `extern "C"` function, a file a family
//! - `core`     what one opened core owns, and the order in which it ends
//! - `wake`     events for TypeScript, taken by one parked call
//! - `process`  commands: started, their output kept, their groups ended, by one supervising thread
//! - `reactor`  what an event loop is made of: an epoll set and timers
//! - `self_protection`  limits that the daemon takes for itself
//! - `file`, `tar`, `transfer`  files and trees, and each of them on its way in or out
//! - `identity` what a snapshot's clones would share, made anew
//! - `noise`    who may have a tunnel, and the messages of those who proved it
//! - `connections`  a look at this process's own connections by TCP and vsock
//! - `disk`, `temp`, `thread_pool`, `clock`  free space, files without a name, threads for what may block, time
//! - `service`  the kernel that is needed, and the service manager that waits for the daemon
//! - `sync`     locks and threads as all parts have them

pub mod abi;
pub mod clock;
pub mod connections;
pub mod core;
mod disk;
mod exports;
pub mod file;
pub mod identity;
pub mod noise;
pub mod process;
mod reactor;
mod self_protection;
mod service;
mod sync;
pub mod tar;
pub mod temp;
mod thread_pool;
pub mod transfer;
pub mod wake;
