//! Trees that change while they are packed, and trees that are too large to be.

#[path = "support/trees.rs"]
mod trees;

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use guestd::file::failure::OVER_LIMIT;
use guestd::file::read::Source;
use guestd::tar::Limits;
use guestd::tar::pack::Packer;
use trees::{LIMITS, Yard, packed};

#[test]
fn a_file_that_is_replaced_while_it_is_packed_is_the_old_or_the_new_one() {
    let yard = Yard::new();
    let tree = yard.root();
    fs::create_dir(&tree).unwrap();
    let (packing, beside) = (tree.join("tree"), tree.join("beside"));
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
    let yard = Yard::new();
    let tree = yard.root();
    fs::create_dir(&tree).unwrap();
    for number in 0..20 {
        fs::write(tree.join(format!("f{number}")), b"").unwrap();
    }
    let limits = |members| Limits { members, ..LIMITS };
    // The root counts, too.
    let refused = Packer::open(&tree, limits(20), &Arc::default());
    let failure = refused.err().unwrap();
    assert_eq!(failure.status, OVER_LIMIT);
    assert!(
        failure.text.ends_with("it has more than 20 members"),
        "{failure:?}"
    );
    assert!(packed(&tree, limits(21)).len() >= 21 * 512);
    // What is left out counts as nothing.
    let fifo = tree.join("fifo");
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, rustix::fs::Mode::RUSR, 0).unwrap();
    packed(&tree, limits(21));
}

#[test]
fn a_tree_that_grows_to_twice_what_is_allowed_while_it_is_packed_is_given_up() {
    let yard = Yard::new();
    let tree = yard.root();
    fs::create_dir(&tree).unwrap();
    let below = tree.join("below");
    fs::create_dir(&below).unwrap();
    for (names, given_up) in [(6, false), (7, true)] {
        let limits = Limits {
            members: 4,
            ..LIMITS
        };
        for file in fs::read_dir(&below).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
        let mut packer = Packer::open(&tree, limits, &Arc::default()).unwrap();
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

#[test]
fn what_has_become_something_else_since_it_was_listed_is_that() {
    let yard = Yard::new();
    let tree = yard.root();
    fs::create_dir(&tree).unwrap();
    let at = |name: &str| tree.join(name);
    for file in ["file", "gone", "z"] {
        fs::write(at(file), b"1").unwrap();
    }
    fs::create_dir(at("dir")).unwrap();
    symlink("file", at("link")).unwrap();
    // It has listed the root.
    let mut packer = Packer::open(&tree, LIMITS, &Arc::default()).unwrap();
    for file in ["file", "gone", "link"] {
        fs::remove_file(at(file)).unwrap();
    }
    symlink("link", at("file")).unwrap();
    fs::remove_dir(at("dir")).unwrap();
    fs::write(at("dir"), b"2").unwrap();
    fs::create_dir(at("link")).unwrap();
    fs::write(at("link/within"), b"3").unwrap();
    let (mut bytes, mut found) = (vec![0; 1 << 16], Vec::new());
    let count = packer.fill(&mut bytes).unwrap();
    for entry in tar::Archive::new(&bytes[..count]).entries().unwrap() {
        let entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        found.push((name, entry.header().entry_type().as_byte()));
    }
    let wanted = [("./", b'5'), ("dir", b'0'), ("file", b'2'), ("link/", b'5')];
    let wanted = wanted
        .into_iter()
        .chain([("link/within", b'0'), ("z", b'0')]);
    let wanted: Vec<_> = wanted.map(|(name, kind)| (name.to_owned(), kind)).collect();
    assert_eq!(found, wanted);
}
