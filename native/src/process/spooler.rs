//! The thread that moves captured output from memory to the store's file: a disk may be slow, and
//! that must stop neither pipes nor JavaScript.

use std::sync::Arc;

use rustix::io::Errno;

use super::exec::{Exec, Table};
use super::store::Store;
use crate::sync::start_thread;

/// Starts the thread; it ends when the store is closed. `failed` is told the errno whenever moving
/// begins to fail; what could not be moved stays in memory.
pub fn start(
    store: Arc<Store>,
    table: Arc<Table>,
    failed: impl Fn(Errno) + Send + 'static,
) -> std::io::Result<()> {
    let body = move || {
        let (mut scratch, mut was_failing) = (Vec::new(), false);
        loop {
            let orders = store.wait();
            if orders.closed {
                return;
            }
            if !orders.freed.is_empty() {
                store.give_back(&orders.freed);
            }
            if orders.crowded {
                // Again while there is something to move: others write while this one moves.
                let mut result = Ok(1);
                while result.is_ok_and(|moved| moved > 0) {
                    result = make_room(&store, &table, &mut scratch);
                }
                if let (Err(errno), false) = (result, was_failing) {
                    failed(errno);
                }
                was_failing = result.is_err();
                store.set_failing(was_failing);
                store.rest();
                scratch = Vec::new();
            }
        }
    };
    start_thread("guestd-spooler", body)
}

/// Moves output until a quarter of the memory is free again, from those first who hold most.
/// Returns the number of pieces that were moved.
fn make_room(store: &Arc<Store>, table: &Table, scratch: &mut Vec<u8>) -> Result<usize, Errno> {
    let mut moved = 0;
    let enough = store.limit / 4 * 3;
    let mut holders: Vec<(usize, Arc<Exec>)> = table
        .all()
        .into_iter()
        .map(|exec| (exec.facts().log.movable(), exec.clone()))
        .filter(|(bytes, _)| *bytes > 0)
        .collect();
    holders.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    for (_, exec) in holders {
        while store.used() > enough {
            // The lock is free while the disk works.
            let Some(piece) = exec.facts().log.copy_movable(scratch) else {
                break;
            };
            let extent = store.put(scratch)?;
            exec.facts().log.moved(piece, extent);
            moved += 1;
        }
    }
    Ok(moved)
}
