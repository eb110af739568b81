//! One command: what is asked of it, what is known of it (facts that only grow, and its output), and how it ended.

use std::collections::HashMap;
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::process::{Pid, WaitId, WaitIdOptions, getpgid, waitid};

use super::log::Log;
use crate::sync::lock;

/// Everything the spawner needs to know.
#[derive(Debug, Default, PartialEq)]
pub struct Request {
    /// The arguments, the program's name first; never empty.
    pub argv: Vec<CString>,
    /// `NAME=value` strings, the whole environment.
    pub envp: Vec<CString>,
    /// Directory to start in; the daemon's own when absent.
    pub cwd: Option<CString>,
    /// User id to become.
    pub uid: Option<u32>,
    /// Group id to become.
    pub gid: Option<u32>,
    /// Whether the child gets a pipe as its stdin.
    pub stdin: bool,
    /// Whether the group is ended once the leader has exited.
    pub reap: bool,
    /// Wall-clock budget in seconds.
    pub timeout_secs: Option<f64>,
}

const STDIN: u32 = 1;
const REAP: u32 = 2;
const UID: u32 = 4;
const GID: u32 = 8;
const CWD: u32 = 16;
const TIMEOUT: u32 = 32;

/// Decodes a request, which TypeScript sends as one blob, little-endian.
///
/// Layout: flags, uid, gid (u32 each), timeout (f64), argc, envc (u32 each), then argv, envp and,
/// if flagged, cwd, each a u32 length and its bytes. `None` for anything that is not this layout.
pub fn decode_request(blob: &[u8]) -> Option<Request> {
    let mut rest = Rest(blob);
    let (flags, uid, gid) = (rest.u32()?, rest.u32()?, rest.u32()?);
    let timeout = f64::from_le_bytes(rest.take(8)?.try_into().ok()?);
    let (argc, envc) = (rest.u32()?, rest.u32()?);
    if argc == 0 {
        return None;
    }
    let argv = rest.strings(argc)?;
    let envp = rest.strings(envc)?;
    let cwd = rest.strings(u32::from(flags & CWD != 0))?.pop();
    rest.0.is_empty().then_some(Request {
        argv,
        envp,
        cwd,
        uid: (flags & UID != 0).then_some(uid),
        gid: (flags & GID != 0).then_some(gid),
        stdin: flags & STDIN != 0,
        reap: flags & REAP != 0,
        timeout_secs: (flags & TIMEOUT != 0).then_some(timeout),
    })
}

impl Request {
    /// The files to try, in the child's own PATH unless the name holds a slash.
    pub fn candidates(&self) -> Vec<CString> {
        let name = self.argv[0].as_bytes();
        if name.is_empty() || name.contains(&b'/') {
            return vec![self.argv[0].clone()];
        }
        let mut variables = self.envp.iter().map(|pair| pair.as_bytes());
        let path = variables.find_map(|pair| pair.strip_prefix(b"PATH="));
        let directories = path.unwrap_or_default().split(|byte| *byte == b':');
        let candidate = |directory: &[u8]| {
            let directory = if directory.is_empty() {
                b"."
            } else {
                directory
            };
            CString::new([directory, b"/", name].concat()).ok()
        };
        directories.filter_map(candidate).collect()
    }
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }
    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }
    fn strings(&mut self, count: u32) -> Option<Vec<CString>> {
        // The count is not trusted for an allocation: each string takes at least four bytes.
        (count as usize <= self.0.len() / 4).then_some(())?;
        let mut string = || {
            let length = self.u32()? as usize;
            CString::new(self.take(length)?).ok()
        };
        (0..count).map(|_| string()).collect()
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// The exit of a process that stays a zombie; `None` while it lives.
pub(super) fn peek(pidfd: &OwnedFd) -> Option<Exit> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let status = waitid(WaitId::PidFd(pidfd.as_fd()), options).ok()??;
    let (code, signal) = (status.exit_status(), status.terminating_signal());
    Some(signal.map_or(Exit::Code(code.unwrap_or(-1)), Exit::Signal))
}

/// Reaps a child that has ended or is about to: from here on its number may be used again.
pub(super) fn reap(pidfd: &OwnedFd) {
    let wait = || waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
    let _ = rustix::io::retry_on_intr(wait);
}

/// Reaps a child that has ended, if it is of the group `pgid`, whose number must not be anybody
/// else's: the child's may be by now.
pub(super) fn reap_of_group(pid: i32, pgid: i32) {
    let pid = Pid::from_raw(pid);
    let group = getpgid(pid).map(|group| group.as_raw_nonzero().get());
    if let (Some(pid), true) = (pid, group == Ok(pgid)) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let _ = waitid(WaitId::Pid(pid), options);
    }
}

/// What the supervisor learns and everybody may read.
pub struct ExecFacts {
    /// Captured output, the stream's window and its readers.
    pub log: Log,
    /// How the leader ended, once it has.
    pub exit: Option<Exit>,
    /// The outcome is final.
    pub published: bool,
    /// It was published because the linger deadline passed with pipes still open.
    pub writers_may_be_alive: bool,
    /// The group's number may belong to somebody else by now.
    pub group_gone: bool,
}

/// One started command, shared by the supervisor, which writes its facts, and the exports.
pub struct Exec {
    /// Handle.
    pub id: u32,
    /// The leader's pid, which is also the group's.
    pub pid: i32,
    /// Epoch seconds just before the clone.
    pub started_at: u64,
    facts: Mutex<ExecFacts>,
}

impl Exec {
    /// A command that was just started.
    pub fn new(id: u32, pid: i32, started_at: u64, log: Log) -> Self {
        let facts = ExecFacts {
            log,
            exit: None,
            published: false,
            writers_may_be_alive: false,
            group_gone: false,
        };
        Self {
            id,
            pid,
            started_at,
            facts: Mutex::new(facts),
        }
    }

    /// The facts, for a moment.
    pub fn facts(&self) -> MutexGuard<'_, ExecFacts> {
        lock(&self.facts)
    }
}

/// What the spawner hands over of a started child.
pub struct Spawned {
    /// Its shared side.
    pub exec: Arc<Exec>,
    /// Its pidfd.
    pub pidfd: OwnedFd,
    /// The reading ends of its stdout and stderr.
    pub output: [OwnedFd; 2],
    /// The writing end of its stdin.
    pub stdin: Option<OwnedFd>,
    /// End the group once the leader has exited.
    pub reap: bool,
    /// Wall-clock budget in seconds.
    pub timeout_secs: Option<f64>,
}

/// The execs that have a handle.
#[derive(Default)]
pub struct Table(Mutex<HashMap<u32, Arc<Exec>>>);

impl Table {
    /// Adds an exec under its handle.
    pub fn insert(&self, exec: &Arc<Exec>) {
        lock(&self.0).insert(exec.id, Arc::clone(exec));
    }

    /// Finds one.
    pub fn get(&self, id: u32) -> Option<Arc<Exec>> {
        lock(&self.0).get(&id).cloned()
    }

    /// Takes one out.
    pub fn remove(&self, id: u32) -> Option<Arc<Exec>> {
        lock(&self.0).remove(&id)
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Exec>> {
        lock(&self.0).values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(name: &str, env: &[&str]) -> Vec<String> {
        let text = |text: &&str| CString::new(*text).unwrap();
        let request = Request {
            argv: vec![text(&name)],
            envp: env.iter().map(text).collect(),
            ..Request::default()
        };
        let found = request.candidates().into_iter();
        found.map(|path| path.into_string().unwrap()).collect()
    }

    #[test]
    fn a_name_without_a_slash_is_looked_up_in_path_where_nothing_is_the_working_directory() {
        let found = candidates("ls", &["A=1", "PATH=/a::/b"]);
        assert_eq!(found, ["/a/ls", "./ls", "/b/ls"]);
        assert_eq!(candidates("ls", &["PATH="]), ["./ls"]);
        assert_eq!(candidates("./ls", &["PATH=/a"]), ["./ls"]);
        assert_eq!(candidates("", &["PATH=/a"]), [""]);
    }

    #[test]
    fn blobs_cut_anywhere_or_with_more_behind_are_refused() {
        let mut blob = Vec::new();
        // Flags, uid, gid, a timeout of 0.0, one argument and one variable.
        for word in [CWD | UID, 5, 0, 0, 0, 1, 1] {
            blob.extend(word.to_le_bytes());
        }
        for text in ["ls", "A=1", "/tmp"] {
            blob.extend((text.len() as u32).to_le_bytes());
            blob.extend(text.as_bytes());
        }
        let whole = decode_request(&blob).unwrap();
        assert_eq!((whole.uid, whole.gid), (Some(5), None));
        assert_eq!(whole.cwd.as_deref(), Some(c"/tmp"));
        for cut in 0..blob.len() {
            assert_eq!(decode_request(&blob[..cut]), None, "cut at {cut}");
        }
        blob.push(0);
        assert_eq!(decode_request(&blob), None);
        assert_eq!(decode_request(&[0xff; 64]), None);
    }
}
