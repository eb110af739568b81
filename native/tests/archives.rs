//! Any bytes as an archive: the fuzzer's corpus, mutations of it, and members that meet each other and
//! symlinks on disk. Whatever they are, the verdict is an acceptance or a refusal; refused, nothing is
//! there; nothing lands outside the root, or leads out of it afterwards.

#[path = "support/trees.rs"]
mod trees;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;
use std::thread;

use guestd::file::failure::{Failure, OVER_LIMIT, REFUSED};
use guestd::file::reserve::Reserve;
use guestd::tar::extract::unpack;
use guestd::tar::spool::Spool;
use proptest::prelude::*;
use proptest::sample::Index;
use rustix::fs::{MemfdFlags, memfd_create};
use tar::{EntryType, Header};
use trees::{LIMITS, Yard, packed};

/// A root with things in it that an archive may meet.
fn furnished() -> Yard {
    let yard = Yard::new();
    let root = yard.root();
    fs::create_dir_all(root.join("a/b/c")).unwrap();
    fs::create_dir(root.join("d")).unwrap();
    fs::write(root.join("d/f"), b"old").unwrap();
    for (target, link) in [
        ("d", "in"),
        ("../../d", "a/b/in"),
        ("in/../a/b", "round"),
        (".", "d/a"),
        ("nowhere", "b"),
        ("../..", "c"),
        ("../f", "h"),
    ] {
        symlink(target, root.join(link)).unwrap();
    }
    yard
}

/// Everything in it, with the targets of symlinks and the contents of files.
fn listed(yard: &Yard) -> BTreeMap<PathBuf, (Option<PathBuf>, Option<Vec<u8>>)> {
    let (mut found, mut dirs) = (BTreeMap::new(), vec![yard.0.clone()]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let link = fs::read_link(&path).ok();
            let is_dir = link.is_none() && path.is_dir();
            let content = (link.is_none() && !is_dir).then(|| fs::read(&path).unwrap());
            found.insert(path.clone(), (link, content));
            if is_dir {
                dirs.push(path);
            }
        }
    }
    found
}

fn spooled(bytes: &[u8]) -> Spool {
    let mut file = File::from(memfd_create("archive", MemfdFlags::CLOEXEC).unwrap());
    file.write_all(bytes).unwrap();
    Spool::whole(file).unwrap()
}

fn extract(spool: &Spool, root: &Path) -> Result<(), Failure> {
    let reserve = Reserve::new(0);
    unpack(spool, root, LIMITS, reserve, &AtomicBool::new(false))
}

/// Extracts into an absent and into a furnished root. True if the former was accepted.
fn verdict(bytes: &[u8]) -> bool {
    let spool = spooled(bytes);
    let [accepted, _] = [Yard::new(), furnished()].map(|yard| {
        let before = listed(&yard);
        let verdict = extract(&spool, &yard.root());
        let after = listed(&yard);
        if let Err(failure) = &verdict {
            let refused = [REFUSED, OVER_LIMIT].contains(&failure.status);
            assert!(refused && !failure.text.contains('\n'), "{failure:?}");
            assert_eq!(after, before);
        }
        for (path, found) in &after {
            match (path.strip_prefix(yard.root()), &found.0) {
                (Err(_), _) => assert_eq!(before.get(path), Some(found), "{path:?}"),
                (Ok(_), Some(target)) if before.get(path) != Some(found) => {
                    assert!(
                        !leads_out(&yard.root(), path, target),
                        "{path:?} {target:?}"
                    );
                }
                _ => {}
            }
        }
        verdict.is_ok()
    });
    accepted
}

/// Whether the target of a symlink in the root leads out of it, taken as it stands.
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

/// Archives by name, in the order of their names.
static CORPUS: LazyLock<BTreeMap<String, Vec<u8>>> = LazyLock::new(|| {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/check_archive");
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap()))
        .map(|(name, bytes)| (name.into_string().unwrap(), bytes))
        .collect()
});

/// One of them.
fn archive() -> impl Strategy<Value = &'static [u8]> {
    any::<Index>().prop_map(|which| &which.get(&CORPUS.values().collect::<Vec<_>>())[..])
}

#[test]
fn the_corpus_gets_the_verdicts_that_it_should() {
    let refused = "absolute cut_content cut_header device dotdot empty fifo garbage hard_out \
                   symlink_out through_symlink";
    assert!(CORPUS.len() > 20);
    for (name, bytes) in &*CORPUS {
        let refused = refused.split(' ').any(|refused| refused == name.as_str());
        assert_eq!(verdict(bytes), !refused, "{name}");
    }
}

#[test]
fn a_whole_archive_is_refused_wherever_it_is_cut() {
    let written_by = ["gnu_", "sparse", "bsd_", "busybox", "pax_", "python_"];
    for (name, bytes) in &*CORPUS {
        if !written_by.iter().any(|program| name.starts_with(program)) {
            continue;
        }
        // Some pad to more than the two blocks of the end.
        let zeros = bytes.rchunks(512).take_while(|block| **block == [0; 512]);
        let end = bytes.len() - 512 * zeros.count();
        for block in (0..=end).step_by(512) {
            for cut in [block, block + 1, block + 256, block + 511] {
                assert!(!verdict(&bytes[..cut]), "{name} cut at {cut}");
            }
        }
        assert!(verdict(&bytes[..end + 512]), "{name} with one zero block");
    }
}

#[test]
fn what_was_packed_is_extracted_to_what_is_packed_the_same() {
    let yard = furnished();
    // What leads out is not extracted again.
    for leading_out in ["c", "h"] {
        fs::remove_file(yard.root().join(leading_out)).unwrap();
    }
    let deep = yard.root().join(format!("{0}/{0}/{0}", "n".repeat(200)));
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("f"), vec![7; 200_000]).unwrap();
    fs::hard_link(deep.join("f"), yard.root().join("z")).unwrap();
    symlink("t".repeat(400), yard.root().join("far")).unwrap();
    let archive = packed(&yard.root(), LIMITS);
    let copy = yard.0.join("copy");
    extract(&spooled(&archive), &copy).unwrap();
    assert_eq!(packed(&copy, LIMITS), archive);
}

#[test]
fn a_name_through_more_symlinks_than_the_kernel_follows_is_refused() {
    for (links, accepted) in [(40, true), (41, false)] {
        let yard = furnished();
        // There `d/a` leads to `d`.
        let name = format!("d/{}new", "a/".repeat(links));
        let mut bytes = header(EntryType::Regular, &name, "").to_vec();
        bytes.resize(bytes.len() + 1024, 0);
        let verdict = extract(&spooled(&bytes), &yard.root());
        assert_eq!(
            verdict.map_err(|failure| failure.status),
            if accepted { Ok(()) } else { Err(REFUSED) }
        );
        assert_eq!(yard.root().join("d/new").exists(), accepted);
    }
}

#[test]
fn a_hard_link_to_a_file_that_is_being_replaced_is_made_all_the_same() {
    let yard = Yard::new();
    let mut bytes = Vec::new();
    for (kind, name, link) in [(EntryType::Regular, "f", ""), (EntryType::Link, "h", "f")] {
        bytes.extend(header(kind, name, link));
    }
    bytes.resize(bytes.len() + 1024, 0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..3000 {
                    extract(&spooled(&bytes), &yard.root()).unwrap();
                }
            });
        }
    });
}

/// A header of 512 bytes, for a member without content.
fn header(kind: EntryType, name: &str, link: &str) -> [u8; 512] {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(0o755);
    header.set_size(0);
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    if matches!(kind, EntryType::Symlink | EntryType::Link) {
        header.set_link_name_literal(link).unwrap();
    }
    header.set_cksum();
    *header.as_bytes()
}

/// Puts the right checksum on a header, so that what else was changed is looked at.
fn sign(block: &mut [u8]) {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// Few names, which meet each other and what is in a furnished root.
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
    #[test]
    fn members_that_meet_each_other_and_symlinks_are_judged_and_confined(
        members in prop::collection::vec(member(), 1..6),
    ) {
        let mut bytes = Vec::new();
        for (kind, name, link) in &members {
            bytes.extend(header(*kind, name, link));
        }
        bytes.resize(bytes.len() + 1024, 0);
        verdict(&bytes);
    }
}

proptest! {
    #[test]
    fn archives_with_changed_bytes_are_judged_and_confined(
        archive in archive(),
        changes in prop::collection::vec((any::<Index>(), any::<u8>()), 1..6),
        signed in any::<bool>(),
    ) {
        let mut bytes = archive.to_vec();
        for (at, byte) in changes {
            if bytes.len() >= 512 {
                // Mostly in headers, where bytes matter.
                let at = at.index(bytes.len());
                bytes[at] = byte;
                let block = at / 512 * 512;
                if let Some(block) = bytes.get_mut(block..block + 512).filter(|_| signed) {
                    sign(block);
                }
            }
        }
        verdict(&bytes);
    }

    #[test]
    fn archives_of_pieces_of_others_are_judged_and_confined(
        pieces in prop::collection::vec((archive(), any::<Index>(), 1usize..5), 1..8),
    ) {
        let mut bytes = Vec::new();
        for (archive, from, length) in pieces {
            let blocks: Vec<_> = archive.chunks_exact(512).collect();
            if !blocks.is_empty() {
                let from = from.index(blocks.len());
                bytes.extend(blocks[from..].iter().take(length).copied().flatten());
            }
        }
        bytes.extend_from_slice(&[0; 1024]);
        verdict(&bytes);
    }
}
