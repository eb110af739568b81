//! An upload: something that empties the buffers that TypeScript lends.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rustix::fs::{Mode, stat};
use rustix::io::Errno;

use super::{Order, Orders, Transfers};
use crate::abi::errno_of;
use crate::file::failure::Failure;
use crate::file::parents::nearest_dir;
use crate::file::reserve::Reserve;
use crate::file::target::{Target, resolve};
use crate::tar::Limits;
use crate::tar::extract::unpack;
use crate::tar::spool::Spool;
use crate::temp::Temp;

/// Where the bytes go and what becomes of them. Dropped, it leaves nothing.
enum Goal {
    /// A file.
    File(Target),
    /// A spooled archive, to be extracted beneath a root.
    Tree(Box<Spool>, PathBuf),
}

impl Transfers {
    /// Begins to write a file, with `mode` if there is one, unless the space available falls below the reserve. The body
    /// is spooled in `spool` where it cannot lie beside the target. Completes `token` when buffers are taken. Returns the
    /// handle.
    pub fn write_file(
        &self,
        path: PathBuf,
        mode: Option<u32>,
        reserve: Reserve,
        spool: PathBuf,
        token: u32,
    ) -> u32 {
        let open = move |_: &_| {
            let (path, exists) = resolve(&path)?;
            reserve.check(&path, 0)?;
            let spools = [spool.as_path(), &std::env::temp_dir()];
            let target = Target::prepare(path, exists, mode, &spools)?;
            Ok(((Goal::File(target), reserve), 0))
        };
        self.begin(token, open, take)
    }

    /// Begins to spool an archive for the directory `root`, as [`Transfers::write_file`].
    pub fn write_tree(&self, root: PathBuf, reserve: Reserve, spool: PathBuf, token: u32) -> u32 {
        let open = move |_: &_| {
            let goal = open_spool(root, &reserve, &spool)?;
            Ok(((goal, reserve), 0))
        };
        self.begin(token, open, take)
    }
}

fn open_spool(root: PathBuf, reserve: &Reserve, spool: &Path) -> Result<Goal, Failure> {
    reserve.check(&root, 0)?;
    let near = nearest_dir(&root);
    let spools = [near.as_path(), spool, &std::env::temp_dir()];
    let file = Temp::unlinked(&spools)
        .map_err(|errno| Failure::of("spool the archive for", &root, errno))?;
    reserve.check_file(&file)?;
    // What is made in a set-group-id directory gets its group, and so cannot be made elsewhere.
    let inherits = stat(&near).is_ok_and(|near| near.st_mode & Mode::SGID.bits() != 0);
    let own_dir = (!inherits).then_some(near);
    Ok(Goal::Tree(Box::new(Spool::new(file, own_dir)), root))
}

/// Takes buffers until the upload is finished, or fails: then nothing is left, and whatever is asked after it fails the
/// same way.
fn take(opened: (Goal, Reserve), mut orders: Orders) {
    // Dropped before the orders, whose end says that nothing is left.
    let (mut goal, mut reserve) = opened;
    while let Some(order) = orders.next() {
        match order {
            Order::Move(buffer, ticket) => {
                if let Err(failure) = goal.write(buffer.bytes(), &mut reserve) {
                    drop(goal);
                    ticket.end(Err(failure.clone()));
                    return orders.refuse(&failure);
                }
                ticket.end(Ok(buffer.bytes().len() as i64));
            }
            Order::Finish(limits, ticket) => {
                let finished = goal.finish(limits, reserve, &orders.cancelled);
                return ticket.end(finished.map(|()| 0));
            }
            Order::Close(_) => {}
        }
    }
}

impl Goal {
    fn write(&mut self, bytes: &[u8], reserve: &mut Reserve) -> Result<(), Failure> {
        let count = bytes.len() as u64;
        let (written, path, file): (Result<(), Errno>, &Path, _) = match self {
            Self::File(target) => {
                reserve.count(target.file(), count)?;
                let written = target.file().write_all(bytes);
                (written.map_err(errno_of), target.path(), target.file())
            }
            Self::Tree(spool, root) => {
                reserve.count(spool.main(), count)?;
                (spool.write(bytes), root, spool.main())
            }
        };
        written.map_err(|errno| reserve.explain(errno, file, Failure::of("write", path, errno)))
    }

    fn finish(self, limits: Limits, reserve: Reserve, stopped: &AtomicBool) -> Result<(), Failure> {
        match self {
            Self::File(target) => target.commit(&reserve),
            Self::Tree(spool, root) => unpack(&spool, &root, limits, reserve, stopped),
        }
    }
}
