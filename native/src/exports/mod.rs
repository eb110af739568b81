//! Every `extern "C"` function. A file a family; each function borrows, asks, and encodes.
//!
//! What they answer: see [`Reply`].

mod connections;
mod core;
mod exec;
mod files;
mod identity;
mod noise;
mod stream;
mod system;

use std::sync::{Arc, PoisonError, RwLock};

use crate::abi::{NOT_OPEN, Reply, UNKNOWN, guard};
use crate::core::Core;
use crate::process::context::Command;

/// The opened core. One a process: it owns what a process has one of (SIGCHLD, orphans).
static CORE: RwLock<Option<Arc<Core>>> = RwLock::new(None);

/// Runs an export's body with the opened core.
fn with_core(body: impl FnOnce(&Arc<Core>) -> Reply) -> i32 {
    guard(|| {
        let core = CORE.read().unwrap_or_else(PoisonError::into_inner).clone();
        body(&core.ok_or(NOT_OPEN)?)
    })
}

/// Sends the supervisor a command.
fn send(command: Command) -> i32 {
    with_core(|core| {
        core.send(command);
        Ok(0)
    })
}

/// Whether a handle named something.
fn known(known: bool) -> Reply {
    if known { Ok(0) } else { Err(UNKNOWN) }
}
