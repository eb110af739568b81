//! A download: something that fills the buffers that TypeScript lends.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::ticket::Ticket;
use super::{Order, Orders, Transfers};
use crate::file::failure::Failure;
use crate::file::read::WholeFile;
use crate::file::reader::Source;
use crate::file::window::LineWindow;
use crate::tar::Limits;
use crate::tar::pack::Packer;

/// A source and the size that it claims to have, in bytes; 0 where it claims none.
type Opened = (Box<dyn Source>, u64);

impl Transfers {
    /// Begins to read a file, from line `first` to line `last`, or whole if `first` is 0. Completes `token` with the size
    /// that it claims, or 0 for a window. Returns the handle.
    pub fn read_file(&self, path: PathBuf, (first, last): (u64, u64), token: u32) -> u32 {
        self.begin(token, move |begun, orders| {
            serve(begun, orders, |cancelled| {
                if first == 0 {
                    let (file, size) = WholeFile::open(&path)?;
                    return Ok((Box::new(file), size));
                }
                let window = LineWindow::open(&path, first, last, Arc::clone(cancelled))?;
                Ok((Box::new(window), 0))
            });
        })
    }

    /// Measures a directory and begins to pack it. Completes `token` with 0. Returns the handle.
    pub fn read_tree(&self, path: PathBuf, limits: Limits, token: u32) -> u32 {
        self.begin(token, move |begun, orders| {
            serve(begun, orders, |cancelled| {
                let packer = Packer::open(&path, limits, cancelled)?;
                Ok((Box::new(packer), 0))
            });
        })
    }
}

/// Opens a source and fills buffers from it. One that was not filled was the last: what is open is closed then.
fn serve(
    begun: Ticket,
    mut orders: Orders,
    open: impl FnOnce(&Arc<AtomicBool>) -> Result<Opened, Failure>,
) {
    let mut source = match open(&orders.cancelled) {
        Ok((source, size)) => {
            begun.end(Ok(size as i64));
            Some(source)
        }
        Err(failure) => {
            begun.end(Err(failure.clone()));
            return orders.refuse(&failure);
        }
    };
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
