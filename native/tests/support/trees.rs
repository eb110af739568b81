//! Trees of tests, and their archives.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use guestd::file::read::Source;
use guestd::tar::Limits;
use guestd::tar::pack::Packer;

/// More than a test needs.
pub const LIMITS: Limits = Limits {
    members: 1000,
    bytes: 1 << 24,
};

/// A place for a root, removed with all it holds, and a file beside it that must stay as it is.
pub struct Yard(pub PathBuf);

impl Yard {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("guestd-yard-{}-{number}", std::process::id());
        let yard = Self(std::env::temp_dir().join(name));
        fs::create_dir(&yard.0).unwrap();
        fs::write(yard.0.join("f"), b"outside").unwrap();
        yard
    }

    pub fn root(&self) -> PathBuf {
        self.0.join("root")
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The whole archive of a tree.
pub fn packed(root: &Path, limits: Limits) -> Vec<u8> {
    let mut packer = Packer::open(root, limits, &Arc::default()).unwrap();
    let (mut bytes, mut out) = (Vec::new(), vec![0; 1000]);
    loop {
        match packer.fill(&mut out).unwrap() {
            0 => return bytes,
            count => bytes.extend_from_slice(&out[..count]),
        }
    }
}
