//! Archives of a few names that meet each other, and symlinks on disk, in all ways: what is accepted
//! is extracted, what is refused leaves nothing, and nothing leads out of the root afterwards.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use guestd::file::failure::REFUSED;
use guestd::file::reserve::Reserve;
use guestd::tar::Limits;
use guestd::tar::extract::unpack;
use guestd::tar::header::{Entry, append};
use guestd::tar::spool::Spool;
use proptest::prelude::*;
use rustix::fs::{MemfdFlags, memfd_create};
use tar::EntryType;

const LIMITS: Limits = Limits {
    members: 1000,
    bytes: 1 << 24,
};

/// A root with directories and with symlinks to them, beside something that must stay as it is.
struct Yard(PathBuf);

impl Yard {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("guestd-names-{}-{number}", std::process::id());
        let yard = Self(std::env::temp_dir().join(name));
        let root = yard.root();
        fs::create_dir_all(root.join("a/b/c")).unwrap();
        fs::create_dir(root.join("d")).unwrap();
        fs::write(root.join("d/f"), b"old").unwrap();
        fs::write(yard.0.join("f"), b"outside").unwrap();
        for (target, link) in [
            ("d", "in"),
            ("../../d", "a/b/in"),
            ("in/../a/b", "round"),
            (".", "d/a"),
            ("nowhere", "b"),
            ("../..", "c"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        yard
    }

    fn root(&self) -> PathBuf {
        self.0.join("root")
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Everything beneath a directory, with the targets of its symlinks.
fn listed(dir: &Path, found: &mut Vec<(PathBuf, Option<PathBuf>)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        found.push((path.clone(), fs::read_link(&path).ok()));
        if path.symlink_metadata().unwrap().is_dir() {
            listed(&path, found);
        }
    }
}

fn all(yard: &Yard) -> Vec<(PathBuf, Option<PathBuf>)> {
    let mut found = Vec::new();
    listed(&yard.0, &mut found);
    found.sort();
    found
}

/// How far above the root the target of a symlink in it leads, taken as it stands.
fn leads_out(root: &Path, link: &Path, target: &Path) -> bool {
    let depth = link.parent().unwrap().strip_prefix(root).unwrap();
    let mut depth = depth.components().count() as i64;
    target.components().any(|component| {
        depth += match component {
            Component::ParentDir => -1,
            Component::Normal(_) => 1,
            _ => 0,
        };
        depth < 0
    })
}

fn member() -> impl Strategy<Value = (EntryType, String, String)> {
    let kind = prop_oneof![
        3 => Just(EntryType::Regular),
        2 => Just(EntryType::Directory),
        2 => Just(EntryType::Symlink),
        1 => Just(EntryType::Link),
    ];
    let name = "(a|b|c|d|f|in|round)(/(a|b|c|d|f|in)){0,2}";
    let link = "(\\.\\./){0,3}(a|b|d|f|in|round)(/(a|b|d|f|in|\\.\\.)){0,1}";
    (kind, name, link)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn what_is_accepted_is_extracted_and_leads_nowhere_out(
        members in prop::collection::vec(member(), 1..6),
    ) {
        let mut bytes = Vec::new();
        for (kind, name, link) in &members {
            let linking = matches!(kind, EntryType::Symlink | EntryType::Link);
            append(&mut bytes, &Entry {
                kind: *kind,
                name: name.as_bytes(),
                link: if linking { link.as_bytes() } else { b"" },
                mode: 0o755,
                uid: 0,
                gid: 0,
                mtime: (0, 0),
                size: 0,
            });
        }
        bytes.resize(bytes.len() + 1024, 0);
        let mut file = File::from(memfd_create("archive", MemfdFlags::CLOEXEC).unwrap());
        file.write_all(&bytes).unwrap();
        let (yard, spool) = (Yard::new(), Spool::whole(file).unwrap());
        let before = all(&yard);
        let verdict = unpack(&spool, &yard.root(), LIMITS, Reserve::new(0), &AtomicBool::new(false));
        let after = all(&yard);
        if let Err(failure) = verdict {
            prop_assert_eq!(failure.status, REFUSED, "{:?}", failure);
            prop_assert_eq!(&after, &before);
        }
        for (path, target) in &after {
            match (path.strip_prefix(yard.root()), target) {
                (Err(_), _) => prop_assert!(before.iter().any(|(known, _)| known == path)),
                (Ok(_), Some(target)) if !before.contains(&(path.clone(), Some(target.clone()))) => {
                    prop_assert!(!leads_out(&yard.root(), path, target), "{:?} {:?}", path, target);
                }
                _ => {}
            }
        }
    }
}
