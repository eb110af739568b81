//! Trees that change while they are packed, and trees that are too large to be.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use guestd::file::failure::OVER_LIMIT;
use guestd::file::reader::Source;
use guestd::tar::Limits;
use guestd::tar::pack::Packer;

const LIMITS: Limits = Limits {
    members: 1000,
    bytes: 1 << 24,
};

/// A directory that is removed with everything in it.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("guestd-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn packed(path: &Path, limits: Limits) -> Vec<u8> {
    let mut packer = Packer::open(path, limits, &Arc::default()).unwrap();
    let (mut bytes, mut out) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        match packer.fill(&mut out).unwrap() {
            0 => return bytes,
            count => bytes.extend_from_slice(&out[..count]),
        }
    }
}

#[test]
fn a_file_that_is_replaced_while_it_is_packed_is_the_old_or_the_new_one() {
    let tree = Tree::new("swapped");
    let (packing, beside) = (tree.0.join("tree"), tree.0.join("beside"));
    fs::create_dir(&packing).unwrap();
    fs::create_dir(&beside).unwrap();
    let contents = [vec![b'A'; 100], vec![b'B'; 5000]];
    let names: Vec<String> = (0..20).map(|number| format!("f{number:02}")).collect();
    for name in &names {
        fs::write(packing.join(name), &contents[0]).unwrap();
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 1.. {
                for name in &names {
                    fs::write(beside.join(name), &contents[turn % 2]).unwrap();
                    fs::rename(beside.join(name), packing.join(name)).unwrap();
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                }
            }
        });
        for _ in 0..600 {
            let bytes = packed(&packing, LIMITS);
            for entry in tar::Archive::new(&bytes[..]).entries().unwrap() {
                let mut entry = entry.unwrap();
                if entry.header().entry_type().is_file() {
                    let mut content = Vec::new();
                    entry.read_to_end(&mut content).unwrap();
                    let whole = contents.contains(&content);
                    done.fetch_or(!whole, Ordering::Relaxed);
                    assert!(whole, "{} bytes of a mixture", content.len());
                }
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_directory_of_too_many_names_is_refused_while_it_is_listed() {
    let tree = Tree::new("crowded");
    for number in 0..20 {
        fs::write(tree.0.join(format!("f{number}")), b"").unwrap();
    }
    let limits = |members| Limits { members, ..LIMITS };
    // The root counts, too. Nothing is measured yet when it is opened.
    let refused = Packer::open(&tree.0, limits(20), &Arc::default());
    let failure = refused.err().unwrap();
    assert_eq!(failure.status, OVER_LIMIT);
    assert!(
        failure.text.ends_with("it has more than 20 members"),
        "{failure:?}"
    );
    assert!(packed(&tree.0, limits(21)).len() >= 21 * 512);
    // What is left out counts as nothing.
    let fifo = tree.0.join("fifo");
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, rustix::fs::Mode::RUSR, 0).unwrap();
    packed(&tree.0, limits(21));
}

#[test]
fn a_tree_that_grows_to_twice_what_is_allowed_while_it_is_packed_is_given_up() {
    let tree = Tree::new("growing");
    let below = tree.0.join("below");
    fs::create_dir(&below).unwrap();
    for (names, given_up) in [(6, false), (7, true)] {
        let limits = Limits {
            members: 4,
            ..LIMITS
        };
        for file in fs::read_dir(&below).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
        let mut packer = Packer::open(&tree.0, limits, &Arc::default()).unwrap();
        while !packer.prepare().unwrap() {}
        // It was measured, and its root listed: the root and what is below it are two of eight.
        for number in 0..names {
            fs::write(below.join(format!("f{number}")), b"").unwrap();
        }
        let mut out = vec![0; 1 << 16];
        match packer.fill(&mut out) {
            Ok(_) => assert!(!given_up),
            Err(failure) => {
                assert!(given_up, "{failure:?}");
                assert_eq!(failure.status, OVER_LIMIT);
            }
        }
    }
}
