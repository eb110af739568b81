//! Every `extern "C"` function. A file a family; each function borrows, asks, and encodes.
//!
//! Results: 0 or a count or a handle, an errno negated, or one of the codes in `abi`.

mod connections;
mod core;
mod exec;
mod files;
mod identity;
mod noise;
mod stream;
mod system;

use std::sync::{Arc, PoisonError, RwLock};

use crate::abi::{NOT_OPEN, guard};
use crate::core::Core;
use crate::process::context::Command;

/// The opened core. One a process: it owns what a process has one of (SIGCHLD, orphans).
static CORE: RwLock<Option<Arc<Core>>> = RwLock::new(None);

fn opened() -> Option<Arc<Core>> {
    CORE.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Runs an export's body with the opened core.
fn with_core(body: impl FnOnce(&Arc<Core>) -> i32) -> i32 {
    guard(|| opened().map_or(NOT_OPEN, |core| body(&core)))
}

/// Sends the supervisor a command.
fn send(command: Command) -> i32 {
    with_core(|core| {
        core.send(command);
        0
    })
}
