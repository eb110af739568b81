//! OpenSSH as the guest's daemon: an sshd of our own on the loopback, and one kept connection.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::peer::{Peer, awaited, free_port};
use crate::{Outcome, limit};

/// A ControlMaster, and the sshd with its own keys and configuration that it is connected to. They
/// use the cipher that is the fastest on processors with AES, by far.
pub struct Ssh {
    _master: Peer,
    _sshd: Peer,
    to: Target,
}

/// Where the kept connection is found, and whom it leads to.
struct Target {
    directory: PathBuf,
    name: String,
}

/// `None` where OpenSSH is not installed.
pub fn start(directory: &Path) -> Outcome<Option<Ssh>> {
    if !Path::new("/usr/sbin/sshd").exists() || !Path::new("/usr/bin/ssh").exists() {
        return Ok(None);
    }
    fs::create_dir_all(directory)?;
    // sshd separates privileges in a directory that its package's service would have made.
    let _ = fs::create_dir_all("/run/sshd");
    // One that was killed has left it.
    let _ = fs::remove_file(directory.join("control"));
    let [host, user] = ["host", "user"].map(|name| directory.join(name));
    for key in [&host, &user] {
        let mut make = Command::new("ssh-keygen");
        make.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(key);
        if !key.exists() && !make.status()?.success() {
            return Err("ssh-keygen failed".into());
        }
    }
    let port = free_port()?;
    let at = directory.display();
    // A shell that believes to be inside another does not read the user's start-up file, which may
    // take longer than anything that is measured here.
    let config = format!(
        "ListenAddress 127.0.0.1:{port}\nHostKey {at}/host\nAuthorizedKeysFile {at}/user.pub\n\
         StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n\
         SetEnv SHLVL=1\n\
         MaxSessions 100\nPidFile none\nPrintMotd no\nLogLevel ERROR\n"
    );
    let path = directory.join("sshd_config");
    fs::write(&path, config)?;
    let mut command = Command::new("/usr/sbin/sshd");
    command.args(["-D", "-f"]).arg(path);
    let mut sshd = Peer::start(&mut command).ok_or("sshd does not start")?;
    if !sshd.listens(port)? {
        return Err("sshd has ended".into());
    }
    let name = String::from_utf8(Command::new("id").arg("-un").output()?.stdout)?;
    let to = Target {
        directory: directory.to_owned(),
        name: format!("{}@127.0.0.1", name.trim()),
    };
    let mut command = to.ssh();
    command.args(["-M", "-N", "-p", &port.to_string(), "-i"]);
    command.arg(user).args(["-o", "StrictHostKeyChecking=no"]);
    command.args(["-o", "UserKnownHostsFile=/dev/null", &to.name]);
    let master = Peer::start(command.stderr(Stdio::null())).ok_or("ssh does not start")?;
    let ssh = Ssh {
        _master: master,
        _sshd: sshd,
        to,
    };
    awaited("the ssh master", || {
        ssh.run("true", |_| ()).is_ok_and(|code| code == 0)
    })?;
    Ok(Some(ssh))
}

impl Target {
    /// What every command of the kept connection begins with.
    fn ssh(&self) -> Command {
        let mut command = Command::new("ssh");
        command.args(["-F", "none", "-o", "LogLevel=ERROR"]);
        command.args(["-c", "aes128-gcm@openssh.com", "-S"]);
        command.arg(self.directory.join("control"));
        command.stdin(Stdio::null());
        command
    }
}

impl Ssh {
    /// Has the kept connection lead from `port` of this end to `to` of the other, both on 127.0.0.1.
    pub fn forward(&self, port: u16, to: u16) -> Outcome<()> {
        let lead = format!("127.0.0.1:{port}:127.0.0.1:{to}");
        let mut command = self.to.ssh();
        command.args(["-O", "forward", "-L", &lead, &self.to.name]);
        match command.status()?.success() {
            true => Ok(()),
            false => Err("ssh does not forward".into()),
        }
    }

    /// Runs a command over the kept connection; gives its stdout to `each`. Returns its exit code.
    pub fn run(&self, command: &str, each: impl FnMut(&[u8])) -> Outcome<i32> {
        let mut ssh = self.to.ssh();
        limit::read(
            ssh.args([&self.to.name, command]).stderr(Stdio::null()),
            each,
        )
    }
}
