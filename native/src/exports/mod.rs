//! Every `extern "C"` function. A file a family; each function borrows, asks, and encodes.
//!
//! Results: 0 or a count or a handle, an errno negated, or one of the codes in `abi`.

mod caller;
mod core;
mod downloads;
mod exec;
mod files;
mod identity;
mod stream;
mod system;
mod tunnel;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};

use crate::abi::{NOT_OPEN, guard};
use crate::caller::{Ends, plain};
use crate::core::Core;

/// The opened core. One a process: it owns what a process has one of (SIGCHLD, orphans).
static CORE: RwLock<Option<Arc<Core>>> = RwLock::new(None);

fn opened() -> Option<Arc<Core>> {
    CORE.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Runs an export's body with the opened core.
fn with_core(body: impl FnOnce(&Arc<Core>) -> i32) -> i32 {
    guard(|| opened().map_or(NOT_OPEN, |core| body(&core)))
}

/// The ends of a caller's connection: its address as text and its port, and this end's port.
fn ends(host: &[u8], host_port: u32, local_port: u32) -> Option<Ends> {
    // An IPv6 address may name its scope, which counts for nothing here.
    let address = std::str::from_utf8(host).ok()?.split('%').next()?;
    let ip: IpAddr = address.parse().ok()?;
    Some(Ends {
        peer: plain(SocketAddr::new(ip, u16::try_from(host_port).ok()?)),
        local_port: u16::try_from(local_port).ok()?,
    })
}
