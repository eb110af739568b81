//! What the kernel alone can do: no daemon is faster than this.

use std::io::Read;
use std::process::{Command, Stdio};

use crate::Outcome;

/// Starts a command, reads its pipes to their end, waits for it; gives stdout to `each` in pieces
/// of at most 64 KiB. Returns its exit code, which is -1 after a signal.
pub fn run(argv: &[&str], each: impl FnMut(&[u8])) -> Outcome<i32> {
    let (program, arguments) = argv.split_first().ok_or("a command without a program")?;
    // Nothing here keeps the standard library from posix_spawn.
    let mut command = Command::new(program);
    command.args(arguments).env_clear();
    command.env("PATH", "/usr/bin:/bin").stderr(Stdio::piped());
    read(&mut command, each)
}

/// The same of any command, whose stderr is read where it is a pipe.
pub fn read(command: &mut Command, mut each: impl FnMut(&[u8])) -> Outcome<i32> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut out = child.stdout.take().ok_or("a child without an output")?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        match out.read(&mut buffer)? {
            0 => break,
            count => each(&buffer[..count]),
        }
    }
    if let Some(mut err) = child.stderr.take() {
        while err.read(&mut buffer)? > 0 {}
    }
    Ok(child.wait()?.code().unwrap_or(-1))
}
