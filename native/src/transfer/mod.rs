//! Files and trees under way: each transfer is plain code on a thread of its own.
//!
//! - `mod`  the transfers by handle, and what TypeScript asks of one
//! - `download`, `upload`  what their threads do

pub mod download;
#[cfg(test)]
mod order_tests;
pub mod ticket;
pub mod upload;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::abi::Lent;
use crate::file::failure::Failure;
use crate::sync::lock;
use crate::tar::Limits;
use crate::thread_pool::ThreadPool;
use crate::wake::Wake;
use ticket::{Texts, Ticket};

/// How many transfers may be under way, and how many may wait for that.
const UNDER_WAY: (usize, usize) = (256, 1024);
/// How many orders of one transfer may wait for its thread.
const ORDERS: usize = 16;

/// What is asked of a transfer.
enum Order {
    /// To fill a buffer, or to take what is in it.
    Move(Lent, Ticket),
    /// To put what was taken in its place, within the limits of a tree.
    Finish(Limits, Ticket),
    /// To end, and to say when nothing is left.
    Close(Ticket),
}

struct Transfer {
    orders: SyncSender<Order>,
    cancelled: Arc<AtomicBool>,
}

/// The orders of one transfer, as its thread takes them. Dropped, which is the last that its thread does, it tells whoever
/// closed the transfer that nothing is left of it; orders that were not carried out end as given up.
struct Orders {
    inbox: Receiver<Order>,
    cancelled: Arc<AtomicBool>,
    closing: Option<Ticket>,
}

impl Orders {
    /// The next order, but for the closing; `None` once nobody wants the transfer any more.
    fn next(&mut self) -> Option<Order> {
        loop {
            match self.inbox.recv() {
                Ok(Order::Close(ticket)) => self.closing = Some(ticket),
                Ok(_) if self.cancelled.load(Ordering::Relaxed) => continue,
                Ok(order) => return Some(order),
                Err(_) => {}
            }
            return None;
        }
    }

    /// Ends every order from now on with the same failure.
    fn refuse(&mut self, failure: &Failure) {
        while let Some(Order::Move(_, ticket) | Order::Finish(_, ticket)) = self.next() {
            ticket.end(Err(failure.clone()));
        }
    }
}

impl Drop for Orders {
    fn drop(&mut self) {
        for order in self.inbox.try_iter() {
            if let Order::Close(ticket) = order {
                self.closing = Some(ticket);
            }
        }
        if let Some(ticket) = self.closing.take() {
            ticket.end(Ok(0));
        }
    }
}

/// Invariant: a handle is in `under_way` from the beginning of its transfer until it is closed.
pub struct Transfers {
    pool: ThreadPool,
    wake: Arc<Wake>,
    texts: Texts,
    under_way: Mutex<HashMap<u32, Transfer>>,
    next: AtomicU32,
}

impl Transfers {
    /// No transfer, no thread.
    pub fn new(wake: Arc<Wake>) -> Self {
        let (texts, under_way, next) = Default::default();
        Self {
            pool: ThreadPool::new("guestd-transfer", UNDER_WAY.0, UNDER_WAY.1),
            wake,
            texts,
            under_way,
            next,
        }
    }

    /// Opens something on a thread of its own and has it serve the transfer's orders. Completes `token` with what `open`
    /// says beside it; once that fails, every order fails the same way. Returns the handle.
    fn begin<T>(
        &self,
        token: u32,
        open: impl FnOnce(&Arc<AtomicBool>) -> Result<(T, i64), Failure> + Send + 'static,
        serve: impl FnOnce(T, Orders) + Send + 'static,
    ) -> u32 {
        let (orders, inbox) = sync_channel(ORDERS);
        let cancelled = Arc::<AtomicBool>::default();
        let handle = self.insert(Transfer {
            orders,
            cancelled: Arc::clone(&cancelled),
        });
        let begun = self.ticket(token);
        let mut orders = Orders {
            inbox,
            cancelled,
            closing: None,
        };
        // Dropped unrun, they say so.
        let _ = self.pool.run(move || match open(&orders.cancelled) {
            Ok((opened, value)) => {
                begun.end(Ok(value));
                serve(opened, orders);
            }
            Err(failure) => {
                begun.end(Err(failure.clone()));
                orders.refuse(&failure);
            }
        });
        handle
    }

    /// Has a transfer fill a buffer, or take what is in it; completes `token` with the bytes. False if there is none.
    pub fn carry(&self, handle: u32, buffer: Lent, token: u32) -> bool {
        self.order(handle, token, |ticket| Order::Move(buffer, ticket))
    }

    /// Has a transfer put what it took in its place, within the limits of a tree; completes `token`. False if there is
    /// none.
    pub fn finish(&self, handle: u32, limits: Limits, token: u32) -> bool {
        self.order(handle, token, |ticket| Order::Finish(limits, ticket))
    }

    /// Ends a transfer, wherever it is: what has not begun is dropped, what is under way ends soon, and what is not
    /// finished leaves nothing. Completes `token` when nothing more is done. False if there is none.
    pub fn close(&self, handle: u32, token: u32) -> bool {
        let Some(transfer) = self.under_way().remove(&handle) else {
            return false;
        };
        transfer.cancelled.store(true, Ordering::Relaxed);
        let closed = transfer.orders.try_send(Order::Close(self.ticket(token)));
        // Its thread has ended already.
        if let Err(TrySendError::Disconnected(Order::Close(ticket))) = closed {
            ticket.end(Ok(0));
        }
        true
    }

    /// Takes the sentence of a failed operation.
    pub fn take_text(&self, token: u32) -> Option<String> {
        lock(&self.texts).remove(&token)
    }

    fn order(&self, handle: u32, token: u32, order: impl FnOnce(Ticket) -> Order) -> bool {
        let transfers = self.under_way();
        let Some(transfer) = transfers.get(&handle) else {
            return false;
        };
        // What is refused, because its thread has ended, ends as given up.
        let refused = transfer.orders.try_send(order(self.ticket(token)));
        drop(transfers);
        drop(refused);
        true
    }

    fn ticket(&self, token: u32) -> Ticket {
        Ticket::new(&self.wake, &self.texts, token)
    }

    fn insert(&self, transfer: Transfer) -> u32 {
        let mut transfers = self.under_way();
        loop {
            // 31 bits and never 0, so that a result can be a handle or a negated errno.
            let handle = self.next.fetch_add(1, Ordering::Relaxed) & (u32::MAX >> 1);
            if handle != 0 && !transfers.contains_key(&handle) {
                transfers.insert(handle, transfer);
                return handle;
            }
        }
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<u32, Transfer>> {
        lock(&self.under_way)
    }
}
