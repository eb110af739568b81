//! Directories and connections for tests.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::caller::Ends;

/// A directory that is removed with everything in it.
pub struct TempDir(PathBuf);

impl TempDir {
    /// A new one beneath the directory for temporary files.
    pub fn make() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("guestd-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Both ends of a connection, the caller's first, and what names it.
pub fn connected() -> (TcpStream, TcpStream, Ends) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let caller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (accepted, peer) = listener.accept().unwrap();
    let local_port = listener.local_addr().unwrap().port();
    (caller, accepted, Ends { peer, local_port })
}
