//! What the members of an archive will be, by name.

use std::collections::HashMap;

/// A directory that the archive puts something into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirId(u32);

/// The directory that the archive is extracted into.
pub const ROOT: DirId = DirId(0);

/// What is or will be at a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    Directory(DirId),
    File,
    /// A symlink of the archive, whose target goes so many directories above its own.
    Symlink(u32),
    /// A symlink on disk through which members go to this directory, and so many that the kernel follows on that way.
    Through(DirId, u32),
}

struct IndexedDir {
    parent: DirId,
    name: Box<[u8]>,
    depth: u32,
    fresh: bool,
    entries: HashMap<Box<[u8]>, Node>,
}

/// The names of an archive, directory by directory: a long way that many members share is kept once.
///
/// Invariant: a directory is beneath one that comes before it in `dirs`, of which the first is the
/// root; none is a symlink, so each has one name. What lies in a fresh directory is fresh.
pub struct ArchiveIndex {
    dirs: Vec<IndexedDir>,
}

impl ArchiveIndex {
    /// An index of the root alone, which is `fresh` if there is nothing on disk yet.
    pub fn new(fresh: bool) -> Self {
        let mut index = Self { dirs: Vec::new() };
        index.push(ROOT, b"", 0, fresh);
        index
    }

    fn push(&mut self, parent: DirId, name: &[u8], depth: u32, fresh: bool) {
        self.dirs.push(IndexedDir {
            parent,
            name: name.into(),
            depth,
            fresh,
            entries: HashMap::new(),
        });
    }

    fn dir(&self, dir: DirId) -> &IndexedDir {
        &self.dirs[dir.0 as usize]
    }

    /// What is known of a name in a directory.
    pub fn get(&self, dir: DirId, name: &[u8]) -> Option<Node> {
        self.dir(dir).entries.get(name).copied()
    }

    /// Says what will be at a name in a directory.
    pub fn set(&mut self, dir: DirId, name: &[u8], node: Node) {
        self.dirs[dir.0 as usize].entries.insert(name.into(), node);
    }

    /// Adds a directory, `fresh` if nothing that is on disk now can lie in it.
    pub fn add_dir(&mut self, parent: DirId, name: &[u8], fresh: bool) -> DirId {
        let dir = DirId(self.dirs.len() as u32);
        let fresh = fresh || self.is_fresh(parent);
        self.push(parent, name, self.depth(parent) + 1, fresh);
        self.set(parent, name, Node::Directory(dir));
        dir
    }

    /// Whether nothing that is on disk now can lie in a directory.
    pub fn is_fresh(&self, dir: DirId) -> bool {
        self.dir(dir).fresh
    }

    /// How many directories beneath the root a directory is.
    pub fn depth(&self, dir: DirId) -> u32 {
        self.dir(dir).depth
    }

    /// The directory above, and the name in it; none for the root.
    pub fn above(&self, dir: DirId) -> Option<(DirId, &[u8])> {
        let IndexedDir { parent, name, .. } = self.dir(dir);
        (dir != ROOT).then_some((*parent, name))
    }

    /// The resolved name of what lies in a directory.
    pub fn name(&self, dir: DirId, last: &[u8]) -> Vec<u8> {
        let above = std::iter::successors(self.above(dir), |(parent, _)| self.above(*parent));
        let mut components: Vec<_> = above.map(|(_, name)| name).collect();
        components.reverse();
        components.push(last);
        components.join(&b'/')
    }
}
