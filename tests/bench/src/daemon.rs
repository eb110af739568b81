//! One daemon process: started as everybody starts it, and looked at from outside.
#![allow(unsafe_code)]

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::Outcome;
use crate::client::Client;

/// The token that every daemon here is given.
pub const TOKEN: &str = "bench-token";

/// A running daemon; dropping it ends it and every command of it, and so does the end of the thread
/// that started it, however that comes.
pub struct Daemon {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

/// What a process holds.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Resident memory in bytes, files and shared memory included.
    pub rss: u64,
    /// Most that was resident since the start, or since [`Daemon::forget_peak`].
    pub peak: u64,
    /// Of what is resident, what is no file: heap, stacks.
    pub anonymous: u64,
    /// Open descriptors; `None` where only root may count them, for a daemon does not let itself be
    /// looked into.
    pub descriptors: Option<usize>,
    /// Threads.
    pub threads: u64,
}

impl Usage {
    /// The number of descriptors, for people.
    pub fn descriptors_told(&self) -> String {
        self.descriptors
            .map_or_else(|| "uncounted".to_owned(), |count| count.to_string())
    }
}

impl Daemon {
    /// Starts the daemon of the checkout `root` on a free port of the loopback; `settings` go into
    /// its environment. Returns once it listens.
    pub fn launch(root: &Path, settings: &[(&str, &str)]) -> Outcome<Self> {
        let mut command = Command::new("setsid");
        // In a session of its own, Ctrl-C does not reach it: without this it would serve for ever.
        // SAFETY: prctl is async-signal-safe and takes numbers.
        unsafe {
            command.pre_exec(
                || match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                },
            );
        }
        let mut child = command
            .arg(root.join("scripts/guestd"))
            .env("GUESTD_LISTEN", "127.0.0.1:0")
            .env("GUESTD_IDENTITY_REPAIR", "off")
            .envs(settings.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut log = BufReader::new(child.stderr.take().ok_or("a daemon without a log")?);
        let mut line = String::new();
        let port = loop {
            line.clear();
            if log.read_line(&mut line)? == 0 {
                return Err("the daemon ended before it listened".into());
            }
            let told: Value = serde_json::from_str(&line).unwrap_or_default();
            if told["msg"] == "listening" {
                break told["port"]
                    .as_u64()
                    .ok_or("the daemon did not log its port")?;
            }
            eprint!("{line}");
        };
        thread::spawn(move || {
            // Two lines for each command: to parse them would cost what is measured beside it.
            for line in log.lines().map_while(Result::ok) {
                if !line.contains(r#""level":"info""#) && !line.contains(r#""level":"debug""#) {
                    eprintln!("{line}");
                }
            }
        });
        let address = SocketAddr::from(([127, 0, 0, 1], u16::try_from(port)?));
        Ok(Self { child, address })
    }

    /// Starts one and installs the token.
    pub fn start(root: &Path, settings: &[(&str, &str)]) -> Outcome<Self> {
        let daemon = Self::launch(root, settings)?;
        daemon.bootstrap(&json!({ "agent_token": TOKEN }))?;
        Ok(daemon)
    }

    /// Sends the run hook with this payload.
    pub fn bootstrap(&self, payload: &Value) -> Outcome<()> {
        let hook = json!({ "runHookPayload": payload.to_string() }).to_string();
        let answer = self
            .client()?
            .expect("POST", "/platform/runtime/v1/run", Some(&hook));
        answer.map(drop)
    }

    /// A new client.
    pub fn client(&self) -> Outcome<Client> {
        Client::open(self.address)
    }

    /// What it holds now.
    pub fn usage(&self) -> Outcome<Usage> {
        let directory = Path::new("/proc").join(self.child.id().to_string());
        let status = fs::read_to_string(directory.join("status"))?;
        let number = |name: &str| -> Outcome<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let word = line.and_then(|rest| rest.split_whitespace().next());
            Ok(word
                .ok_or("a status without a line that it must have")?
                .parse()?)
        };
        let descriptors = match fs::read_dir(directory.join("fd")) {
            Ok(list) => Some(list.count()),
            Err(failure) if failure.kind() == ErrorKind::PermissionDenied => None,
            Err(failure) => return Err(failure.into()),
        };
        Ok(Usage {
            rss: number("VmRSS:")? << 10,
            peak: number("VmHWM:")? << 10,
            anonymous: number("RssAnon:")? << 10,
            descriptors,
            threads: number("Threads:")?,
        })
    }

    /// Begins to measure anew what it holds at most; without permission from its start on.
    pub fn forget_peak(&self) {
        let _ = fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5");
    }

    /// The processes that it has not reaped: commands, and orphans that fell to it.
    pub fn children(&self) -> Outcome<Vec<String>> {
        let mut children = Vec::new();
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            // A thread may have ended since it was listed.
            let list = fs::read_to_string(task?.path().join("children")).unwrap_or_default();
            children.extend(list.split_whitespace().map(str::to_owned));
        }
        Ok(children)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It is not waited for yet, so the number is its.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}
