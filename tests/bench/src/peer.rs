//! Servers of other programs to compare with.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::Outcome;

/// A running one; dropping it ends it by SIGTERM, with which a server's workers end too.
pub struct Peer(Child);

/// A port of the loopback that nobody listens on.
pub fn free_port() -> Outcome<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Looks every 10 ms whether something is so, for five seconds and however long the looks take.
pub fn awaited(what: &str, mut look: impl FnMut() -> bool) -> Outcome<()> {
    for _ in 0..500 {
        if look() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(10));
    }
    Err(format!("{what} is not there").into())
}

impl Peer {
    /// Starts one that reads and prints nothing; `None` where it is not installed.
    pub fn start(command: &mut Command) -> Option<Self> {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null());
        command.spawn().ok().map(Self)
    }

    /// Waits until it takes connections; false if it has ended instead.
    pub fn listens(&mut self, port: u16) -> Outcome<bool> {
        let mut ended = false;
        awaited("a server", || {
            ended = matches!(self.0.try_wait(), Ok(Some(_)));
            ended || TcpStream::connect(("127.0.0.1", port)).is_ok()
        })?;
        Ok(!ended)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Its number is its own until it was waited for.
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
            let _ = self.0.wait();
        }
    }
}
