//! What an archive's members will be, by name.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
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
    /// A symlink.
    Symlink,
}

/// Names are kept as 128-bit hashes under secret keys: a hundred thousand names of 4 KiB cost no
/// more than short ones, and no archive can bring about a collision.
///
/// Invariant: for each name in `nodes` all directories above it are in `nodes` too, as directories.
#[derive(Default)]
pub struct Known {
    keys: [RandomState; 2],
    nodes: HashMap<(u64, u64), Node>,
}

/// The hash of a name that grows component by component.
#[derive(Clone)]
pub struct Name<H>([H; 2]);

impl<H: Hasher + Clone> Name<H> {
    /// Adds a component.
    pub fn push(&mut self, component: &[u8]) {
        for hasher in &mut self.0 {
            hasher.write(component);
            hasher.write_u8(b'/');
        }
    }

    /// The hash.
    pub fn key(&self) -> (u64, u64) {
        (self.0[0].finish(), self.0[1].finish())
    }
}

impl Known {
    /// The empty name.
    pub fn root(&self) -> Name<impl Hasher + Clone + use<>> {
        Name([self.keys[0].build_hasher(), self.keys[1].build_hasher()])
    }

    /// The hash of a resolved name.
    pub fn key(&self, name: &[u8]) -> (u64, u64) {
        let mut hash = self.root();
        for component in name.split(|byte| *byte == b'/') {
            hash.push(component);
        }
        hash.key()
    }

    /// What is known of a name.
    pub fn get(&self, key: (u64, u64)) -> Option<Node> {
        self.nodes.get(&key).copied()
    }

    /// Says what will be at a name. False if it was not known before.
    pub fn set(&mut self, key: (u64, u64), node: Node) -> bool {
        match self.nodes.entry(key) {
            Entry::Occupied(mut there) => {
                there.insert(node);
                true
            }
            Entry::Vacant(free) => {
                free.insert(node);
                false
            }
        }
    }

    /// The first directory above a resolved name that will be none, if there is one: what it will
    /// be, and the length of its name.
    pub fn blocked(&self, parent: &[u8]) -> Option<(Node, usize)> {
        let mut hash = self.root();
        let mut end = 0;
        for component in parent.split(|byte| *byte == b'/') {
            end += component.len();
            hash.push(component);
            match self.get(hash.key()) {
                Some(node @ (Node::File | Node::Symlink)) => return Some((node, end)),
                _ => end += 1,
            }
        }
        None
    }

    /// Whether nothing that is on disk now can lie in the directory with this resolved name.
    pub fn is_fresh(&self, name: &[u8]) -> bool {
        let mut hash = self.root();
        name.split(|byte| *byte == b'/').any(|component| {
            hash.push(component);
            self.get(hash.key()) == Some(Node::Directory { fresh: true })
        })
    }
}
