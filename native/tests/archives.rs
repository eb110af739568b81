//! Any bytes as an archive: the fuzzer's corpus and mutations of it. Whatever they are, the verdict
//! is an acceptance or a refusal; refused, nothing is there; nothing lands outside the root.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use guestd::file::failure::{Failure, OVER_LIMIT, REFUSED};
use guestd::file::reader::Source;
use guestd::file::reserve::Reserve;
use guestd::tar::Limits;
use guestd::tar::extract::unpack;
use guestd::tar::pack::Packer;
use guestd::tar::spool::Spool;
use proptest::prelude::*;
use rustix::fs::{MemfdFlags, memfd_create};

const LIMITS: Limits = Limits {
    members: 1000,
    bytes: 1 << 24,
};

/// A directory with a root in it, and something beside the root that must stay as it is.
struct Yard(PathBuf);

impl Yard {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("guestd-yard-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::write(path.join("x"), b"outside").unwrap();
        Self(path)
    }

    fn root(&self) -> PathBuf {
        self.0.join("root")
    }

    /// A root with things in it that an archive may meet.
    fn furnish(&self) {
        fs::create_dir_all(self.root().join("d")).unwrap();
        fs::write(self.root().join("d/f"), b"old").unwrap();
        symlink("..", self.root().join("l")).unwrap();
        symlink("../x", self.root().join("h")).unwrap();
    }

    fn outside(&self) -> (Vec<u8>, usize) {
        let content = fs::read(self.0.join("x")).unwrap();
        (content, fs::read_dir(&self.0).unwrap().count())
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
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

/// Extracts into an absent and into a furnished root. True if it was accepted.
fn verdict(bytes: &[u8]) -> bool {
    let spool = spooled(bytes);
    let yard = Yard::new();
    let first = extract(&spool, &yard.root());
    if let Err(failure) = &first {
        assert!(
            [REFUSED, OVER_LIMIT].contains(&failure.status),
            "{failure:?}"
        );
        assert!(!failure.text.contains('\n'), "{failure:?}");
        assert_eq!(yard.outside(), (b"outside".to_vec(), 1));
    } else {
        assert_eq!(yard.outside(), (b"outside".to_vec(), 2));
    }
    let yard = Yard::new();
    yard.furnish();
    let again = extract(&spool, &yard.root());
    assert_eq!(yard.outside(), (b"outside".to_vec(), 2));
    if let Err(failure) = again {
        assert!(
            [REFUSED, OVER_LIMIT].contains(&failure.status),
            "{failure:?}"
        );
        assert_eq!(fs::read(yard.root().join("d/f")).unwrap(), b"old");
        assert_eq!(fs::read_dir(yard.root()).unwrap().count(), 3);
    }
    first.is_ok()
}

fn corpus() -> Vec<(String, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/check_archive");
    let mut found: Vec<(String, Vec<u8>)> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (
                entry.file_name().into_string().unwrap(),
                fs::read(entry.path()).unwrap(),
            )
        })
        .collect();
    found.sort();
    found
}

#[test]
fn the_corpus_gets_the_verdicts_that_it_should() {
    let refused = [
        "absolute",
        "cut_content",
        "cut_header",
        "device",
        "dotdot",
        "empty",
        "fifo",
        "garbage",
        "hard_out",
        "symlink_out",
        "through_symlink",
    ];
    let corpus = corpus();
    assert!(corpus.len() > 20);
    for (name, bytes) in corpus {
        assert_eq!(verdict(&bytes), !refused.contains(&name.as_str()), "{name}");
    }
}

#[test]
fn a_whole_archive_is_refused_wherever_it_is_cut() {
    let written_by = ["gnu_", "sparse", "bsd_", "busybox", "pax_", "python_"];
    for (name, bytes) in corpus() {
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
    let yard = Yard::new();
    yard.furnish();
    fs::remove_file(yard.root().join("l")).unwrap();
    fs::remove_file(yard.root().join("h")).unwrap();
    let deep = yard.root().join(format!("{0}/{0}/{0}", "n".repeat(200)));
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("f"), vec![7; 200_000]).unwrap();
    fs::hard_link(deep.join("f"), yard.root().join("z")).unwrap();
    symlink("t".repeat(400), yard.root().join("far")).unwrap();
    let packed = pack(&yard.root());
    let copy = yard.0.join("copy");
    extract(&spooled(&packed), &copy).unwrap();
    assert_eq!(pack(&copy), packed);
}

fn pack(root: &Path) -> Vec<u8> {
    let mut packer = Packer::open(root, LIMITS, &Default::default()).unwrap();
    let (mut packed, mut block) = (Vec::new(), vec![0; 1000]);
    loop {
        let count = packer.fill(&mut block).unwrap();
        packed.extend_from_slice(&block[..count]);
        if count < block.len() {
            return packed;
        }
    }
}

/// Puts the right checksum on a header, so that what else was changed is looked at.
fn sign(block: &mut [u8]) {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn archives_with_changed_bytes_are_judged_and_confined(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        signed in any::<bool>(),
    ) {
        let corpus = corpus();
        let mut bytes = which.get(&corpus).1.clone();
        if bytes.len() >= 512 {
            for (at, byte) in changes {
                // Mostly in headers, where bytes matter.
                let at = at.index(bytes.len());
                bytes[at] = byte;
                if signed {
                    let block = at / 512 * 512;
                    if let Some(block) = bytes.get_mut(block..block + 512) {
                        sign(block);
                    }
                }
            }
        }
        verdict(&bytes);
    }

    #[test]
    fn archives_of_pieces_of_others_are_judged_and_confined(
        pieces in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1usize..5), 1..8),
    ) {
        let corpus = corpus();
        let mut bytes = Vec::new();
        for (which, from, length) in pieces {
            let archive = &which.get(&corpus).1;
            let blocks = archive.len() / 512;
            if blocks > 0 {
                let from = from.index(blocks);
                bytes.extend_from_slice(&archive[from * 512..(from + length).min(blocks) * 512]);
            }
        }
        bytes.extend_from_slice(&[0; 1024]);
        verdict(&bytes);
    }
}
