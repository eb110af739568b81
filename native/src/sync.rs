//! Locks and threads as every part of the core has them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// Size of a thread's stack, in bytes.
const STACK_BYTES: usize = 256 << 10;

/// Locks, also after a panic of whoever had the lock: each holder leaves its invariants true at every step.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a thread that nobody joins.
pub fn start_thread(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let thread = thread::Builder::new().name(name.into());
    thread.stack_size(STACK_BYTES).spawn(body).map(drop)
}
