//! Captured output on a disk that is full: it stays in memory, nothing of it is lost.

use std::process::Command;
use std::sync::Arc;

use guestd::process::exec::{Exec, Table};
use guestd::process::log::{Log, Sizes, Stream};
use guestd::process::spooler;
use guestd::process::store::Store;
use rustix::io::Errno;
use rustix::thread::{UnshareFlags, unshare_unsafe};

const SIZES: Sizes = Sizes {
    capture: 4 << 20,
    window: 1 << 16,
    ahead: 1 << 16,
    behind: 0,
};

fn filled(store: &Arc<Store>, id: u32, bytes: usize) -> (Arc<Exec>, Vec<u8>) {
    let output: Vec<u8> = (0..bytes).map(|at| (at / 7 + id as usize) as u8).collect();
    let exec = Arc::new(Exec::new(id, 1, 0, Log::new(SIZES, store, 0)));
    let mut facts = exec.facts();
    output
        .chunks(60_000)
        .for_each(|chunk| facts.log.push(Stream::Stdout, chunk, 0, |_| ()));
    facts.log.end(|_| ());
    drop(facts);
    (exec, output)
}

fn captured(exec: &Exec) -> Vec<u8> {
    let facts = exec.facts();
    let mut out = vec![0; facts.log.captured(Stream::Stdout) as usize];
    let read = facts.log.read_captured(Stream::Stdout, 0, &mut out);
    read.unwrap();
    out
}

fn run(command: &str, arguments: &[&str]) -> bool {
    let status = Command::new(command).args(arguments).status();
    status.is_ok_and(|status| status.success())
}

/// A tmpfs of 1 MiB that this thread and what it starts see alone; `None` where that takes root.
#[allow(unsafe_code)]
fn small_disk() -> Option<std::path::PathBuf> {
    let directory = std::env::temp_dir().join(format!("guestd-spool-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    // SAFETY: unshare_unsafe demands that the thread does not rely on what is unshared: mounts and
    // the working directory, of which it uses neither.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.ok()?;
    let path = directory.to_str()?;
    let private = run("mount", &["--make-rprivate", "/"]);
    let mounted = private && run("mount", &["-t", "tmpfs", "-o", "size=1m", "none", path]);
    mounted.then_some(directory)
}

#[test]
fn what_a_full_disk_does_not_take_stays_in_memory_and_is_tried_again() {
    let Some(disk) = small_disk() else {
        eprintln!("not root: a full disk cannot be made");
        return;
    };
    let store = Store::new(1 << 20, &disk);
    let table = Arc::new(Table::default());
    let (failed, failures) = std::sync::mpsc::channel();
    // The disk is mounted for this thread alone, so the file is made here; threads share it then.
    drop(store.put(b"made").unwrap());
    let told = move |errno| failed.send(errno).unwrap();
    spooler::start(Arc::clone(&store), Arc::clone(&table), told).unwrap();
    let (large, output) = filled(&store, 1, 3 << 20);
    table.insert(&large);
    // One more claim beyond the limit calls the spooler, now that the exec can be found.
    let (small, other) = filled(&store, 2, 600_000);
    table.insert(&small);
    store.claim().set(64 << 20);
    assert_eq!(failures.recv().unwrap(), Errno::NOSPC);
    assert!(captured(&large) == output && captured(&small) == other);
    assert!(store.used() > 2 << 20, "most of it is in memory");
    store.close();
}
