//! One thread that pumps all tunnels, apart from the reactor: a flood through a tunnel must not
//! delay a pipe.

use std::collections::{BTreeSet, HashMap};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;

use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

use super::context::Context;
use super::noise::Keys;
use super::relay::Relay;
use crate::clock::boottime_ns;
use crate::scrub::wipe_stack;
use crate::wake::Wake;

pub use super::relay::{End, Purpose};

/// The mailbox's key in the epoll set; a tunnel's are its handle twice, and one more for the guest.
const MAILBOX: u64 = 0;

enum Command {
    Open(Box<Relay>),
    Feed {
        id: u32,
        bytes: Vec<u8>,
        last: bool,
        token: u32,
    },
    Close {
        id: u32,
        code: u16,
        reason: String,
        token: u32,
    },
    Stop,
}

/// Invariant: the eventfd is readable whenever `queue` is not empty.
struct Mailbox {
    queue: Mutex<Vec<Command>>,
    eventfd: OwnedFd,
}

impl Mailbox {
    fn send(&self, command: Command) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.push(command);
        if queue.len() == 1 {
            // Cannot block: at most one write per emptied queue is ever unread.
            let _ = rustix::io::write(&self.eventfd, &1u64.to_ne_bytes());
        }
    }

    fn take(&self) -> Vec<Command> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if !queue.is_empty() {
            let _ = rustix::io::read(&self.eventfd, &mut [0u8; 8]);
        }
        std::mem::take(&mut *queue)
    }
}

/// All tunnels, and the keys that prove who may have one. The thread starts with the first.
pub struct Tunnels {
    wake: Arc<Wake>,
    mailbox: Mutex<Option<Arc<Mailbox>>>,
    keys: RwLock<Option<Arc<Keys>>>,
    next_id: AtomicU32,
}

impl Tunnels {
    /// No tunnels yet.
    pub fn new(wake: Arc<Wake>) -> Self {
        let (mailbox, keys, next_id) = Default::default();
        Self {
            wake,
            mailbox,
            keys,
            next_id,
        }
    }

    /// Installs the keys, which replaces older ones for tunnels opened from now on.
    pub fn install(&self, keys: Arc<Keys>) {
        let mut slot = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        *slot = Some(keys);
    }

    /// The keys, once installed.
    pub fn keys(&self) -> Option<Arc<Keys>> {
        self.keys
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Takes over the caller's connection. Returns the tunnel's handle; completes
    /// `token` with an [`End`].
    pub fn open(&self, caller: OwnedFd, purpose: Purpose, token: u32) -> Result<u32, Errno> {
        let mailbox = self.running()?;
        let id = loop {
            let id = self.next_id.fetch_add(1, Ordering::Relaxed) & (u32::MAX >> 1);
            if id != 0 {
                break id;
            }
        };
        mailbox.send(Command::Open(Box::new(Relay::new(
            id, caller, purpose, token,
        ))));
        Ok(id)
    }

    /// See [`Relay::feed`]. For a tunnel that is gone `token` is completed at once.
    pub fn feed(&self, id: u32, bytes: Vec<u8>, last: bool, token: u32) {
        let command = Command::Feed {
            id,
            bytes,
            last,
            token,
        };
        if !self.send(command) {
            self.wake.complete(token, 0, 0);
        }
    }

    /// See [`Relay::close`]. For a tunnel that is gone `token` is completed at once.
    pub fn close(&self, id: u32, code: u16, reason: String, token: u32) {
        let command = Command::Close {
            id,
            code,
            reason,
            token,
        };
        if !self.send(command) {
            self.wake.complete(token, 0, 0);
        }
    }

    /// Ends the thread, and with it every tunnel as it stands.
    pub fn stop(&self) {
        self.send(Command::Stop);
    }

    fn send(&self, command: Command) -> bool {
        let mailbox = self.mailbox.lock().unwrap_or_else(PoisonError::into_inner);
        mailbox.as_ref().is_some_and(|mailbox| {
            mailbox.send(command);
            true
        })
    }

    fn running(&self) -> Result<Arc<Mailbox>, Errno> {
        let mut slot = self.mailbox.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mailbox) = &*slot {
            return Ok(Arc::clone(mailbox));
        }
        let mailbox = Arc::new(Mailbox {
            queue: Mutex::default(),
            eventfd: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        });
        let engine = Engine::new(Arc::clone(&mailbox), Arc::clone(&self.wake))?;
        thread::Builder::new()
            .name("guestd-tunnels".into())
            .stack_size(256 << 10)
            .spawn(move || engine.run())
            .map_err(|error| {
                Errno::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EAGAIN))
            })?;
        *slot = Some(Arc::clone(&mailbox));
        Ok(mailbox)
    }
}

/// Invariant: `deadlines` holds exactly the earliest deadline of each relay that has one, which is
/// also in `due`.
struct Engine {
    context: Context,
    relays: HashMap<u32, Relay>,
    due: HashMap<u32, u64>,
    deadlines: BTreeSet<(u64, u32)>,
    mailbox: Arc<Mailbox>,
}

impl Engine {
    fn new(mailbox: Arc<Mailbox>, wake: Arc<Wake>) -> Result<Self, Errno> {
        let context = Context::new(wake)?;
        let data = EventData::new_u64(MAILBOX);
        epoll::add(&context.epoll, &mailbox.eventfd, data, EventFlags::IN)?;
        let (relays, due, deadlines) = Default::default();
        Ok(Self {
            context,
            relays,
            due,
            deadlines,
            mailbox,
        })
    }

    fn run(mut self) {
        // What fails in a relay ends that relay; should anything else fail, the others go on.
        while !catch_unwind(AssertUnwindSafe(|| self.turn())).unwrap_or(false) {}
    }

    /// Does what is to be done now, or waits for it; whether the thread is to end.
    fn turn(&mut self) -> bool {
        let mut events = [MaybeUninit::<Event>::uninit(); 64];
        let timeout = self.timeout();
        // Fails only for an interruption.
        let ready = epoll::wait(&self.context.epoll, &mut events, timeout.as_ref());
        self.context.now = boottime_ns();
        if let Ok((events, _)) = ready {
            for event in events.iter() {
                let (key, flags) = (event.data.u64(), event.flags);
                if key != MAILBOX {
                    self.with((key >> 1) as u32, |relay, ctx| {
                        relay.ready(key & 1 == 1, flags, ctx)
                    });
                }
            }
        }
        for command in self.mailbox.take() {
            if matches!(command, Command::Stop) {
                return true;
            }
            self.obey(command);
        }
        while let Some(&(at, id)) = self.deadlines.first()
            && at <= self.context.now
        {
            self.with(id, |relay, ctx| relay.due(ctx));
        }
        if std::mem::take(&mut self.context.stained) {
            wipe_stack();
        }
        false
    }

    fn timeout(&self) -> Option<Timespec> {
        let &(at, _) = self.deadlines.first()?;
        let left = at.saturating_sub(boottime_ns());
        Some(Timespec {
            tv_sec: (left / 1_000_000_000) as i64,
            tv_nsec: (left % 1_000_000_000) as i64,
        })
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Open(relay) => {
                let id = relay.id;
                self.relays.insert(id, *relay);
                self.with(id, |relay, ctx| relay.begin(ctx));
            }
            Command::Feed {
                id,
                bytes,
                last,
                token,
            } => {
                if self.relays.contains_key(&id) {
                    self.with(id, |relay, ctx| relay.feed(&bytes, last, token, ctx));
                } else {
                    self.context.wake.complete(token, 0, 0);
                }
            }
            Command::Close {
                id,
                code,
                reason,
                token,
            } => {
                if self.relays.contains_key(&id) {
                    self.with(id, |relay, ctx| relay.close(code, &reason, token, ctx));
                } else {
                    self.context.wake.complete(token, 0, 0);
                }
            }
            Command::Stop => {}
        }
    }

    /// Lets a relay work, then does what follows from it. An event for one that is gone comes from
    /// the same batch as its end, and means nothing any more.
    fn with(&mut self, id: u32, work: impl FnOnce(&mut Relay, &mut Context)) {
        let Some(relay) = self.relays.get_mut(&id) else {
            return;
        };
        let context = &mut self.context;
        let worked = catch_unwind(AssertUnwindSafe(|| {
            work(relay, context);
            relay.settle(context)
        }));
        let gone = match worked {
            Ok(true) => true,
            Ok(false) => {
                let (caller, guest) = relay.wants();
                let key = u64::from(id) << 1;
                let watched = [
                    (&mut relay.caller, key, caller),
                    (&mut relay.guest, key | 1, guest),
                ]
                .into_iter()
                .filter_map(|(side, key, wanted)| Some((side.as_mut()?, key, wanted)))
                .try_for_each(|(side, key, wanted)| context.watch(side, key, wanted));
                // A socket that cannot be watched would never be heard of again.
                if watched.is_err() {
                    relay.abandon(context);
                }
                watched.is_err()
            }
            Err(_) => {
                // One tunnel's failure must not end the others'.
                relay.abandon(context);
                context.renew();
                true
            }
        };
        if gone {
            self.remove(id);
        } else {
            let deadline = relay.deadline();
            self.set_deadline(id, deadline);
        }
    }

    fn remove(&mut self, id: u32) {
        if let Some(mut relay) = self.relays.remove(&id) {
            relay.complete_feed(&mut self.context);
            self.context.stained |= relay.session.is_some();
        }
        self.set_deadline(id, None);
    }

    fn set_deadline(&mut self, id: u32, deadline: Option<u64>) {
        let old = match deadline {
            Some(at) => self.due.insert(id, at),
            None => self.due.remove(&id),
        };
        if old == deadline {
            return;
        }
        if let Some(at) = old {
            self.deadlines.remove(&(at, id));
        }
        if let Some(at) = deadline {
            self.deadlines.insert((at, id));
        }
    }
}
