//! OpenSSH as the guest's daemon: an sshd of our own on the loopback, and one kept connection.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::Outcome;

/// An sshd with its own keys and configuration, and a ControlMaster connected to it. Dropping it
/// ends both.
pub struct Ssh {
    sshd: Child,
    master: Option<Child>,
    directory: PathBuf,
    target: String,
}

/// `None` where OpenSSH is not installed.
pub fn start(directory: &Path) -> Outcome<Option<Ssh>> {
    let sshd = Path::new("/usr/sbin/sshd");
    if !sshd.exists() || !Path::new("/usr/bin/ssh").exists() {
        return Ok(None);
    }
    fs::create_dir_all(directory)?;
    // sshd separates privileges in a directory that its package's service would have made.
    let _ = fs::create_dir_all("/run/sshd");
    for name in ["host", "user"] {
        let key = directory.join(name);
        if !key.exists() {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(&key)
                .status()?;
            if !made.success() {
                return Err("ssh-keygen failed".into());
            }
        }
    }
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let at = directory.display();
    // A shell that believes to be inside another does not read the user's start-up file, which may
    // take longer than anything that is measured here.
    let config = format!(
        "ListenAddress 127.0.0.1:{port}\nHostKey {at}/host\nAuthorizedKeysFile {at}/user.pub\n\
         StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n\
         SetEnv SHLVL=1\n\
         MaxSessions 100\nPidFile none\nPrintMotd no\nLogLevel ERROR\n"
    );
    fs::write(directory.join("sshd_config"), config)?;
    let sshd = Command::new(sshd)
        .args(["-D", "-e", "-f"])
        .arg(directory.join("sshd_config"))
        .stdin(Stdio::null())
        .spawn()?;
    let user = String::from_utf8(Command::new("id").arg("-un").output()?.stdout)?;
    let mut ssh = Ssh {
        sshd,
        master: None,
        directory: directory.to_owned(),
        target: format!("{}@127.0.0.1", user.trim()),
    };
    await_banner(port)?;
    let master = ssh
        .base()
        .args(["-M", "-N", "-p", &port.to_string(), "-i"])
        .arg(directory.join("user"))
        .args([
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "UserKnownHostsFile=/dev/null",
        ])
        .arg(&ssh.target)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    ssh.master = Some(master);
    for _ in 0..500 {
        if ssh.run("true", |_| ()).is_ok_and(|code| code == 0) {
            return Ok(Some(ssh));
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Err("the ssh master did not connect".into())
}

/// Waits until something answers on `port` as sshd does.
fn await_banner(port: u16) -> Outcome<()> {
    for _ in 0..500 {
        if let Ok(mut socket) = TcpStream::connect(("127.0.0.1", port)) {
            let mut banner = [0; 4];
            if socket.read_exact(&mut banner).is_ok() && &banner == b"SSH-" {
                let _ = socket.write_all(b"SSH-2.0-bench\r\n");
                return Ok(());
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Err("sshd does not answer".into())
}

impl Ssh {
    fn base(&self) -> Command {
        let mut command = Command::new("ssh");
        command.args(["-F", "none", "-o", "LogLevel=ERROR", "-S"]);
        command.arg(self.directory.join("control"));
        command
    }

    /// Has the kept connection lead from `port` of this end to `to` of the other, both on 127.0.0.1.
    pub fn forward(&self, port: u16, to: u16) -> Outcome<()> {
        let lead = format!("127.0.0.1:{port}:127.0.0.1:{to}");
        let told = self
            .base()
            .args(["-O", "forward", "-L", &lead, &self.target])
            .stdin(Stdio::null())
            .status()?;
        if told.success() {
            Ok(())
        } else {
            Err("ssh does not forward".into())
        }
    }

    /// Runs a command over the kept connection; gives its stdout to `each`. Returns its exit code.
    pub fn run(&self, command: &str, mut each: impl FnMut(&[u8])) -> Outcome<i32> {
        let mut child = self
            .base()
            .args([self.target.as_str(), command])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut output = child.stdout.take().ok_or("ssh without an output")?;
        let mut buffer = vec![0; 64 << 10];
        loop {
            match output.read(&mut buffer)? {
                0 => break,
                count => each(&buffer[..count]),
            }
        }
        Ok(child.wait()?.code().unwrap_or(-1))
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        let children = [self.master.as_mut(), Some(&mut self.sshd)];
        for child in children.into_iter().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
        // The master's session is a child of sshd's that ends with its connection.
        let _ = fs::remove_file(self.directory.join("control"));
    }
}
