//! What an archive's members will be, by name.

use std::collections::HashMap;
use std::collections::hash_map::{DefaultHasher, RandomState};
use std::hash::{BuildHasher, Hasher};

/// What is or will be at a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// A directory. Fresh if nothing that is on disk now can lie in it.
    Directory {
        /// See above.
        fresh: bool,
    },
    /// A file.
    File,
    /// A symlink of the archive, whose target goes so many directories above its own.
    Symlink {
        /// See above.
        climbs: u32,
    },
    /// A symlink on disk through which members go; the number says where to.
    Through(u32),
}

/// The hash of a resolved name.
pub type Key = (u64, u64);

/// Names are kept as 128-bit hashes under secret keys: a hundred thousand names of 4 KiB cost no
/// more than short ones, and no archive can bring about a collision.
///
/// Invariant: for each name in `nodes` all directories above it are in `nodes` too, as directories.
#[derive(Default)]
pub struct Known {
    keys: [RandomState; 2],
    nodes: HashMap<Key, Node>,
}

/// The hash of a name that grows component by component.
#[derive(Clone)]
pub struct Name([DefaultHasher; 2]);

impl Name {
    /// Adds a component.
    pub fn push(&mut self, component: &[u8]) {
        for hasher in &mut self.0 {
            hasher.write(component);
            hasher.write_u8(b'/');
        }
    }

    /// The hash.
    pub fn key(&self) -> Key {
        (self.0[0].finish(), self.0[1].finish())
    }
}

impl Known {
    /// A resolved name, empty for the root.
    pub fn name(&self, name: &[u8]) -> Name {
        let mut hash = Name([self.keys[0].build_hasher(), self.keys[1].build_hasher()]);
        if !name.is_empty() {
            for component in name.split(|byte| *byte == b'/') {
                hash.push(component);
            }
        }
        hash
    }

    /// The hash of a resolved name.
    pub fn key(&self, name: &[u8]) -> Key {
        self.name(name).key()
    }

    /// What is known of a name.
    pub fn get(&self, key: Key) -> Option<Node> {
        self.nodes.get(&key).copied()
    }

    /// Says what will be at a name.
    pub fn set(&mut self, key: Key, node: Node) {
        self.nodes.insert(key, node);
    }

    /// Whether nothing that is on disk now can lie in the directory with this resolved name.
    pub fn is_fresh(&self, name: &[u8]) -> bool {
        let mut hash = self.name(b"");
        name.split(|byte| *byte == b'/').any(|component| {
            hash.push(component);
            self.get(hash.key()) == Some(Node::Directory { fresh: true })
        })
    }
}
