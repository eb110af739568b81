//! What the members of an archive will be, by name.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// A directory that the archive puts something into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirId(u32);

/// The directory that the archive is extracted into.
pub const ROOT: DirId = DirId(0);

/// What is or will be at a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// A directory.
    Directory(DirId),
    /// A file.
    File,
    /// A symlink of the archive, whose target goes so many directories above its own.
    Symlink {
        /// See above.
        climbs: u32,
    },
    /// A symlink on disk through which members go to this directory.
    Through(DirId),
}

/// The hash of a name.
pub type NameKey = (u64, u64);

/// Names are hashed to 128 bits under secret keys, so that no archive can bring about a collision.
#[derive(Default)]
pub struct NameKeys([RandomState; 2]);

impl NameKeys {
    /// The hash of a name in a directory.
    pub fn of(&self, dir: DirId, name: &[u8]) -> NameKey {
        let [one, other] = self.0.each_ref().map(|keys| {
            let mut hasher = keys.build_hasher();
            hasher.write_u32(dir.0);
            hasher.write(name);
            hasher.finish()
        });
        (one, other)
    }
}

struct IndexedDir {
    parent: DirId,
    name: Box<[u8]>,
    depth: u32,
    fresh: bool,
}

/// The names of an archive. A hundred thousand long ones cost little, for of files and links only hashes are kept.
///
/// Invariant: a directory is beneath one that comes before it in `dirs`, of which the first is the root; none is a
/// symlink, so each has one name. What lies in a fresh directory is fresh.
pub struct ArchiveIndex {
    keys: NameKeys,
    nodes: HashMap<NameKey, Node>,
    dirs: Vec<IndexedDir>,
}

impl ArchiveIndex {
    /// An index of the root alone, which is `fresh` if there is nothing on disk yet.
    pub fn new(fresh: bool) -> Self {
        let (parent, name, depth) = (ROOT, Box::default(), 0);
        let root = IndexedDir {
            parent,
            name,
            depth,
            fresh,
        };
        Self {
            keys: NameKeys::default(),
            nodes: HashMap::new(),
            dirs: vec![root],
        }
    }

    /// The hash of a name in a directory.
    pub fn key(&self, dir: DirId, name: &[u8]) -> NameKey {
        self.keys.of(dir, name)
    }

    /// What is known of a name.
    pub fn get(&self, key: NameKey) -> Option<Node> {
        self.nodes.get(&key).copied()
    }

    /// Says what will be at a name.
    pub fn set(&mut self, key: NameKey, node: Node) {
        self.nodes.insert(key, node);
    }

    /// Adds a directory, `fresh` if nothing that is on disk now can lie in it.
    pub fn add_dir(&mut self, parent: DirId, name: &[u8], fresh: bool) -> DirId {
        let dir = DirId(self.dirs.len() as u32);
        let depth = self.depth(parent) + 1;
        let fresh = fresh || self.is_fresh(parent);
        self.set(self.key(parent, name), Node::Directory(dir));
        let name = name.into();
        self.dirs.push(IndexedDir {
            parent,
            name,
            depth,
            fresh,
        });
        dir
    }

    /// Whether nothing that is on disk now can lie in a directory.
    pub fn is_fresh(&self, dir: DirId) -> bool {
        self.dirs[dir.0 as usize].fresh
    }

    /// How many directories beneath the root a directory is.
    pub fn depth(&self, dir: DirId) -> u32 {
        self.dirs[dir.0 as usize].depth
    }

    /// The directory above, and the name in it; none for the root.
    pub fn above(&self, dir: DirId) -> Option<(DirId, &[u8])> {
        let entry = &self.dirs[dir.0 as usize];
        (dir != ROOT).then_some((entry.parent, &entry.name))
    }

    /// The resolved name of what lies in a directory.
    pub fn name(&self, dir: DirId, last: &[u8]) -> Vec<u8> {
        let mut components = vec![last];
        let mut at = dir;
        while let Some((parent, name)) = self.above(at) {
            components.push(name);
            at = parent;
        }
        components.reverse();
        components.join(&b'/')
    }
}
