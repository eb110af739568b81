//! A download: something that fills the buffers that TypeScript lends.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::{Order, Orders, Transfers};
use crate::file::read::{RegularFile, Source};
use crate::file::window::LineWindow;
use crate::tar::Limits;
use crate::tar::pack::Packer;

impl Transfers {
    /// Begins to read a file, from line `first` to line `last`, or whole if `first` is 0. Completes `token` with the size
    /// that it claims, or 0 for a window. Returns the handle.
    pub fn read_file(&self, path: PathBuf, (first, last): (u64, u64), token: u32) -> u32 {
        let open = move |cancelled: &Arc<AtomicBool>| {
            let (file, size) = RegularFile::open(&path)?;
            if first == 0 {
                return Ok((Box::new(file) as Box<dyn Source>, size as i64));
            }
            let window = LineWindow::new(file, first, last, Arc::clone(cancelled));
            Ok((Box::new(window) as Box<dyn Source>, 0))
        };
        self.begin(token, open, serve)
    }

    /// Measures a directory and begins to pack it. Completes `token` with 0. Returns the handle.
    pub fn read_tree(&self, path: PathBuf, limits: Limits, token: u32) -> u32 {
        let open = move |cancelled: &Arc<AtomicBool>| {
            let packer = Packer::open(&path, limits, cancelled)?;
            Ok((Box::new(packer) as Box<dyn Source>, 0))
        };
        self.begin(token, open, serve)
    }
}

/// Fills buffers from a source. One that was not filled was the last: what is open is closed then.
fn serve(source: Box<dyn Source>, mut orders: Orders) {
    // Dropped before the orders, whose end says that nothing is left.
    let mut source = Some(source);
    while let Some(order) = orders.next() {
        let Order::Move(mut buffer, ticket) = order else {
            continue;
        };
        let filled = match &mut source {
            Some(source) => source.fill(buffer.bytes_mut()),
            None => Ok(0),
        };
        if !matches!(filled, Ok(count) if count == buffer.bytes().len()) {
            source = None;
        }
        ticket.end(filled.map(|count| count as i64));
    }
}
