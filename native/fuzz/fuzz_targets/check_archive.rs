//! Any bytes are checked as an archive: no panic, no hang, no memory that they only claim.
#![no_main]

use std::fs::File;
use std::io::Write;
use std::sync::atomic::AtomicBool;

use guestd::tar::{Limits, check::check, spool::Spool};
use libfuzzer_sys::fuzz_target;
use rustix::fs::{MemfdFlags, memfd_create};

fuzz_target!(|data: &[u8]| {
    let spool = memfd_create("archive", MemfdFlags::CLOEXEC).expect("a memfd");
    let mut spool = File::from(spool);
    spool.write_all(data).expect("memory");
    let limits = Limits {
        members: 1000,
        bytes: 1 << 30,
    };
    let spool = Spool::whole(spool).expect("a size");
    let _ = check(&spool, None, limits, &AtomicBool::new(false));
});
