//! A core under test: real children of this very process.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::cell::RefCell;
use std::ffi::CString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use guestd::core::{Core, Settings};
use guestd::process::context::{Command, Spans};
use guestd::process::exec::Exec;
use guestd::process::exec::Request;
use guestd::process::log::{Log, Next, Sizes, Stream};
use guestd::wake::{EVENT_SIZE, Kind};

/// Short spans, so that deadlines can be waited for.
const SPANS: Spans = Spans {
    linger_ns: 300_000_000,
    grace_ns: 300_000_000,
    stdin_ns: 300_000_000,
};

pub const QUICK: Settings = Settings {
    sizes: Sizes::new(1 << 20, 1 << 16),
    spans: SPANS,
    spool: "/tmp",
};

/// As [`QUICK`], with a minute between SIGTERM and SIGKILL.
pub const PATIENT: Settings = Settings {
    spans: Spans {
        grace_ns: 60_000_000_000,
        ..SPANS
    },
    ..QUICK
};

/// An event: kind, token, status, value.
type Seen = (u32, u32, i32, i64);

pub struct Host {
    pub core: Arc<Core>,
    seen: RefCell<Vec<Seen>>,
    next_token: RefCell<u32>,
}

impl Drop for Host {
    fn drop(&mut self) {
        let token = self.token();
        self.core.send(Command::EndAll { grace_ns: 0, token });
        self.operation(token);
        self.core.close();
    }
}

impl Host {
    pub fn open(settings: Settings) -> Self {
        let core = Arc::new(Core::open(settings).unwrap());
        Self {
            core,
            seen: RefCell::default(),
            next_token: RefCell::new(0),
        }
    }

    pub fn token(&self) -> u32 {
        *self.next_token.borrow_mut() += 1;
        *self.next_token.borrow()
    }

    /// Starts a request; panics when it fails.
    pub fn start(&self, request: Request) -> Arc<Exec> {
        let id = self.try_start(request).unwrap();
        self.core.table.get(id).unwrap()
    }

    /// Starts a request; the handle, or errno and step.
    pub fn try_start(&self, request: Request) -> Result<u32, (i32, i64)> {
        let token = self.token();
        let id = self.core.start(request, token);
        match self.operation(token) {
            (0, _) => Ok(id),
            failed => Err(failed),
        }
    }

    pub fn sh(&self, script: &str) -> Arc<Exec> {
        self.start(shell(script))
    }

    /// Asks for the end of an exec's group, and waits for what comes of it.
    pub fn kill(&self, exec: &Exec) -> (i32, i64) {
        let (exec, token) = (exec.id, self.token());
        self.core.send(Command::Kill { exec, token });
        self.operation(token)
    }

    /// Begins to write to an exec's stdin; the operation's token.
    pub fn write(&self, exec: &Exec, data: &[u8], eof: bool) -> u32 {
        let (exec, data, token) = (exec.id, data.to_vec(), self.token());
        self.core.send(Command::Stdin {
            exec,
            data,
            eof,
            token,
        });
        token
    }

    /// Waits for an operation's status and value.
    pub fn operation(&self, token: u32) -> (i32, i64) {
        let event = self.event(|event| event.0 == Kind::Operation as u32 && event.1 == token);
        (event.2, event.3)
    }

    pub fn published(&self, exec: &Exec) {
        if !exec.facts().published {
            self.event(|event| event.0 == Kind::Published as u32 && event.1 == exec.id);
        }
    }

    pub fn readable(&self, reader: u32) {
        self.event(|event| event.0 == Kind::Readable as u32 && event.1 == reader);
    }

    pub fn orphans(&self) {
        self.event(|event| event.0 == Kind::Orphans as u32);
    }

    /// Waits until stdout holds `text`.
    pub fn says(&self, exec: &Arc<Exec>, text: &str) {
        let reader = self.core.attach(exec, 0);
        let mut heard = Vec::new();
        while !String::from_utf8_lossy(&heard).contains(text) {
            let mut buffer = [0; 4096];
            let next = self.next(reader, &mut buffer);
            match next {
                Next::Output(_, _, count) => heard.extend(&buffer[..count]),
                Next::Gap(..) => {}
                Next::Nothing => self.readable(reader),
                Next::End => panic!("ended without saying {text}"),
            }
        }
        self.core.detach(reader);
    }

    /// Reads as TypeScript does: pipes that were paused for the reader go on once there is room.
    pub fn next(&self, reader: u32, out: &mut [u8]) -> Next {
        let read = |log: &mut Log, now| log.next(reader, out, now);
        self.core.read(reader, read).unwrap()
    }

    fn event(&self, wanted: impl Fn(&Seen) -> bool) -> Seen {
        loop {
            let found = self.seen.borrow().iter().position(&wanted);
            if let Some(at) = found {
                return self.seen.borrow_mut().remove(at);
            }
            let mut out = [0; EVENT_SIZE * 16];
            let count = self.core.wake.wait(&mut out).expect("the core closed");
            for event in out.chunks_exact(EVENT_SIZE).take(count) {
                let word = |at: usize| u32::from_le_bytes(event[at..at + 4].try_into().unwrap());
                let value = i64::from_le_bytes(event[16..24].try_into().unwrap());
                self.seen
                    .borrow_mut()
                    .push((word(0), word(4), word(8) as i32, value));
            }
        }
    }
}

pub fn shell(script: &str) -> Request {
    Request {
        argv: ["/bin/sh", "-c", script]
            .map(|text| CString::new(text).unwrap())
            .into(),
        envp: vec![c"PATH=/usr/local/bin:/usr/bin:/bin".into()],
        ..Request::default()
    }
}

pub fn captured(exec: &Exec, stream: Stream) -> String {
    let mut out = vec![0; 1 << 20];
    let count = exec.facts().log.read_captured(stream, 0, &mut out).unwrap();
    String::from_utf8_lossy(&out[..count]).into_owned()
}

/// Looks again until `holds`: for facts of the process table, which tells nobody when it changes.
pub fn eventually(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < until, "never came true: {what}");
        std::thread::yield_now();
    }
}

/// The state letter of a process, or none when there is no such process.
pub fn state_of(pid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// A directory into which nobody can look: its file system has a server that never answers.
pub struct Hung {
    fuse: Option<std::os::fd::OwnedFd>,
    directory: std::path::PathBuf,
}

impl Hung {
    /// None where there is no /dev/fuse, or no root to mount it.
    pub fn mount() -> Option<Self> {
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
        let fuse = rustix::fs::open("/dev/fuse", flags, rustix::fs::Mode::empty()).ok()?;
        let directory = std::env::temp_dir().join(format!("guestd-hung-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&fuse);
        let data = format!("fd={number},rootmode=40000,user_id=0,group_id=0");
        let data = CString::new(data).unwrap();
        let flags = rustix::mount::MountFlags::NODEV;
        rustix::mount::mount("hung", &directory, "fuse", flags, Some(data.as_c_str())).ok()?;
        let fuse = Some(fuse);
        Some(Self { fuse, directory })
    }

    /// From now on it answers with ENOTCONN, and so does every look that hung.
    pub fn give_up(&mut self) {
        self.fuse = None;
    }

    /// A path that hangs whoever looks at it.
    pub fn inside(&self) -> CString {
        CString::new(format!("{}/x", self.directory.display())).unwrap()
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        self.give_up();
        let _ = rustix::mount::unmount(&self.directory, rustix::mount::UnmountFlags::DETACH);
        let _ = std::fs::remove_dir(&self.directory);
    }
}
