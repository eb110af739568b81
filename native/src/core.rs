//! One opened core: its threads, and the handles that TypeScript holds.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::abi::{Lent, memory};
use crate::clock::boottime_ns;
use crate::connections::Connections;
use crate::noise::Sessions;
use crate::process::context::{Command, Context, Mailbox, Spans};
use crate::process::exec::{Exec, Request, Table};
use crate::process::log::{Log, Sizes};
use crate::process::proc_scan::{self, Answer, Process};
use crate::process::spawner::{SpawnContext, SpawnOrder, Spawner};
use crate::process::store::Store;
use crate::process::{spooler, supervisor};
use crate::self_protection;
use crate::sync::lock;
use crate::thread_pool::ThreadPool;
use crate::transfer::Transfers;
use crate::wake::{Kind, Wake};

/// What the core is opened with.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    /// What is kept of an exec's output.
    pub sizes: Sizes,
    /// How long what may last.
    pub spans: Spans,
    /// Where captured output goes that is too much for memory.
    pub spool: &'a str,
}

/// Captured output, of all execs, that is kept in memory, in bytes.
const MEMORY_BYTES: u64 = 64 << 20;

/// Invariant: a stream's handle is in `streams` exactly while it is attached to its exec's log.
pub struct Core {
    /// Events for TypeScript.
    pub wake: Arc<Wake>,
    /// The execs that have a handle.
    pub table: Arc<Table>,
    mailbox: Arc<Mailbox>,
    spawner: Arc<Spawner>,
    scans: Sender<Answer>,
    /// For calls that may hang.
    pub(crate) jobs: ThreadPool,
    pub(crate) transfers: Transfers,
    pub(crate) connections: Connections,
    /// Those who proved who they are.
    pub(crate) noise: Sessions,
    store: Arc<Store>,
    streams: Mutex<HashMap<u32, Arc<Exec>>>,
    next_id: AtomicU32,
}

impl Core {
    /// Starts every thread. From now on orphans fall to this process, its memory is closed to other
    /// processes of the same user, for it holds the token, and it protects itself as
    /// [`self_protection`] says.
    pub fn open(settings: Settings<'_>) -> std::io::Result<Self> {
        memory::bound();
        let (wake, table) = (Arc::new(Wake::default()), Arc::new(Table::default()));
        let mailbox = Arc::new(Mailbox::new()?);
        let child_exits = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        supervisor::on_child_exit(child_exits.try_clone()?)?;
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
        let store = Store::new(MEMORY_BYTES, Path::new(settings.spool));
        let to_tell = Arc::clone(&wake);
        spooler::start(Arc::clone(&store), Arc::clone(&table), move |errno| {
            to_tell.notify(Kind::SpoolFailed, errno.raw_os_error() as u32);
        })?;
        let scans = proc_scan::start()?;
        let context = Context::new(Arc::clone(&wake), Arc::clone(&store), settings.spans)?;
        let (to_read, mail) = (Arc::clone(&table), Arc::clone(&mailbox));
        supervisor::start(context, to_read, mail, child_exits, scans.clone())?;
        let spawner = Spawner::start(SpawnContext {
            table: Arc::clone(&table),
            mailbox: Arc::clone(&mailbox),
            wake: Arc::clone(&wake),
            original: self_protection::protect(),
            sizes: settings.sizes,
            store: Arc::clone(&store),
        })?;
        Ok(Self {
            table,
            mailbox,
            spawner,
            scans,
            // Four threads, for which 64 calls may wait.
            jobs: ThreadPool::new("guestd-job", 4, 64),
            transfers: Transfers::new(Arc::clone(&wake)),
            connections: Connections::start(Arc::clone(&wake))?,
            wake,
            noise: Sessions::default(),
            store,
            streams: Mutex::default(),
            next_id: AtomicU32::default(),
        })
    }

    /// Starts a child; completes `token` (see [`SpawnOrder`]). Returns its handle.
    pub fn start(&self, request: Request, token: u32) -> u32 {
        let id = self.new_id();
        self.spawner.queue(SpawnOrder { id, token, request });
        id
    }

    /// Asks the supervisor for something.
    pub fn send(&self, command: Command) {
        self.mailbox.send(command);
    }

    /// Attaches a reader to an exec's stream at `offset`. Returns its handle.
    pub fn attach(&self, exec: &Arc<Exec>, offset: u64) -> u32 {
        let id = self.new_id();
        lock(&self.streams).insert(id, Arc::clone(exec));
        let mut facts = exec.facts();
        facts.log.attach(id, offset, boottime_ns());
        // Pipes that wait for somebody who was expected wait for this reader from now on.
        if facts.log.paused {
            self.send(Command::Readers { exec: exec.id });
        }
        id
    }

    /// Has `read` read for reader `id` at this time, and lets the pipes go on if they were paused for
    /// what it took. `None` for nobody's handle.
    pub fn read<R>(&self, id: u32, read: impl FnOnce(&mut Log, u64) -> R) -> Option<R> {
        let exec = lock(&self.streams).get(&id).cloned()?;
        let (mut facts, now) = (exec.facts(), boottime_ns());
        let result = read(&mut facts.log, now);
        if facts.log.take_resumption(now) {
            self.send(Command::Readers { exec: exec.id });
        }
        Some(result)
    }

    /// Detaches a reader, which may come back.
    pub fn detach(&self, id: u32) {
        let Some(exec) = lock(&self.streams).remove(&id) else {
            return;
        };
        let mut facts = exec.facts();
        if facts.log.detach(id, boottime_ns()).is_some() {
            self.send(Command::Readers { exec: exec.id });
        }
    }

    /// Lists the live members of every exec's group into `out`, as far as there is room: pairs of
    /// u32, exec and pid. Completes `token` with the size of the whole list.
    pub fn list_members(self: &Arc<Self>, mut out: Lent, token: u32) {
        let (core, ours) = (Arc::clone(self), self.table.all());
        let answer = move |found: Result<Vec<Process>, Errno>| match found {
            Ok(processes) => {
                let list = pairs(&ours, &processes);
                let room = list.len().min(out.bytes().len());
                out.bytes_mut()[..room].copy_from_slice(&list[..room]);
                core.wake.complete(token, 0, list.len() as i64);
            }
            Err(errno) => core.wake.complete(token, errno.raw_os_error(), 0),
        };
        if self.scans.send(Box::new(answer)).is_err() {
            self.wake.complete(token, libc::EIO, 0);
        }
    }

    /// Ends the supervisor and the parked call. Children go on; nobody watches them any more.
    pub fn close(&self) {
        self.send(Command::Stop);
        self.connections.close();
        self.store.close();
        self.wake.close();
    }

    fn new_id(&self) -> u32 {
        // 31 bits, so that a result can be a handle or a negated errno. At 2,000 a second they come
        // round after 12 days; one that is still in use then is passed over.
        loop {
            let id = self.next_id.fetch_add(1, Ordering::Relaxed) & (u32::MAX >> 1);
            if id != 0 && self.table.get(id).is_none() && !lock(&self.streams).contains_key(&id) {
                return id;
            }
        }
    }
}

/// The members of the groups that are still ours after the look: a number that was given up while
/// it ran may have been counted for somebody else.
fn pairs(ours: &[Arc<Exec>], processes: &[Process]) -> Vec<u8> {
    let ours = ours.iter().filter(|exec| !exec.facts().group_gone);
    let groups: HashMap<i32, u32> = ours.map(|exec| (exec.pid, exec.id)).collect();
    let mut list = Vec::new();
    for process in processes.iter().filter(|process| process.live) {
        if let Some(exec) = groups.get(&process.pgid) {
            list.extend(exec.to_le_bytes());
            list.extend(process.pid.to_le_bytes());
        }
    }
    list
}
