//! What to start, as TypeScript sends it: one blob, little-endian, decoded whole before the clone.

use std::ffi::CString;

/// Everything the spawner needs to know.
#[derive(Debug, PartialEq)]
pub struct Request {
    /// The arguments, the program's name first; never empty.
    pub argv: Vec<CString>,
    /// `NAME=value` strings, the whole environment.
    pub envp: Vec<CString>,
    /// Directory to start in; the daemon's own when absent.
    pub cwd: Option<CString>,
    /// User id to become.
    pub uid: Option<u32>,
    /// Group id to become.
    pub gid: Option<u32>,
    /// Whether the child gets a pipe as its stdin.
    pub stdin: bool,
    /// Whether the group is ended once the leader has exited.
    pub reap: bool,
    /// Wall-clock budget in seconds.
    pub timeout_secs: Option<f64>,
}

const STDIN: u32 = 1;
const REAP: u32 = 2;
const UID: u32 = 4;
const GID: u32 = 8;
const CWD: u32 = 16;
const TIMEOUT: u32 = 32;

/// Layout: flags, uid, gid (u32 each), timeout (f64), argc, envc (u32 each), then argv, envp and,
/// if flagged, cwd, each a u32 length and its bytes. `None` for anything that is not this layout.
pub fn decode(blob: &[u8]) -> Option<Request> {
    let mut rest = Rest(blob);
    let (flags, uid, gid) = (rest.u32()?, rest.u32()?, rest.u32()?);
    let timeout = f64::from_le_bytes(rest.take(8)?.try_into().ok()?);
    let (argc, envc) = (rest.u32()?, rest.u32()?);
    if argc == 0 {
        return None;
    }
    let argv = rest.strings(argc)?;
    let envp = rest.strings(envc)?;
    let cwd = if flags & CWD != 0 {
        Some(rest.string()?)
    } else {
        None
    };
    rest.0.is_empty().then_some(Request {
        argv,
        envp,
        cwd,
        uid: (flags & UID != 0).then_some(uid),
        gid: (flags & GID != 0).then_some(gid),
        stdin: flags & STDIN != 0,
        reap: flags & REAP != 0,
        timeout_secs: (flags & TIMEOUT != 0).then_some(timeout),
    })
}

impl Request {
    /// The files to try, in the child's own PATH unless the name holds a slash.
    pub fn candidates(&self) -> Vec<CString> {
        let name = self.argv[0].as_bytes();
        if name.is_empty() || name.contains(&b'/') {
            return vec![self.argv[0].clone()];
        }
        let path = self
            .envp
            .iter()
            .find_map(|pair| pair.as_bytes().strip_prefix(b"PATH="));
        path.unwrap_or_default()
            .split(|byte| *byte == b':')
            .filter_map(|directory| {
                let directory: &[u8] = if directory.is_empty() {
                    b"."
                } else {
                    directory
                };
                CString::new([directory, b"/", name].concat()).ok()
            })
            .collect()
    }
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }
    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }
    fn string(&mut self) -> Option<CString> {
        let length = self.u32()? as usize;
        CString::new(self.take(length)?).ok()
    }
    fn strings(&mut self, count: u32) -> Option<Vec<CString>> {
        // The count is not trusted for an allocation: each string takes at least four bytes.
        (count as usize <= self.0.len() / 4).then_some(())?;
        (0..count).map(|_| self.string()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(name: &str, env: &[&str]) -> Request {
        Request {
            argv: vec![CString::new(name).unwrap()],
            envp: env
                .iter()
                .map(|pair| CString::new(*pair).unwrap())
                .collect(),
            cwd: None,
            uid: None,
            gid: None,
            stdin: false,
            reap: false,
            timeout_secs: None,
        }
    }

    fn candidates(name: &str, env: &[&str]) -> Vec<String> {
        let found = request(name, env).candidates();
        found
            .into_iter()
            .map(|path| path.into_string().unwrap())
            .collect()
    }

    #[test]
    fn a_name_is_looked_up_in_path_and_an_empty_element_is_the_working_directory() {
        assert_eq!(
            candidates("ls", &["A=1", "PATH=/a::/b"]),
            ["/a/ls", "./ls", "/b/ls"]
        );
        assert_eq!(candidates("ls", &["PATH="]), ["./ls"]);
    }

    #[test]
    fn a_name_with_a_slash_is_taken_as_it_is() {
        assert_eq!(candidates("./ls", &["PATH=/a"]), ["./ls"]);
        assert_eq!(candidates("", &["PATH=/a"]), [""]);
    }

    #[test]
    fn blobs_cut_anywhere_or_with_more_behind_are_refused() {
        let mut blob = Vec::new();
        for word in [CWD | UID, 5, 0] {
            blob.extend(word.to_le_bytes());
        }
        blob.extend(0f64.to_le_bytes());
        for word in [1u32, 1] {
            blob.extend(word.to_le_bytes());
        }
        for text in ["ls", "A=1", "/tmp"] {
            blob.extend((text.len() as u32).to_le_bytes());
            blob.extend(text.as_bytes());
        }
        let whole = decode(&blob).unwrap();
        assert_eq!((whole.uid, whole.gid), (Some(5), None));
        assert_eq!(whole.cwd.as_deref(), Some(c"/tmp"));
        for cut in 0..blob.len() {
            assert_eq!(decode(&blob[..cut]), None, "cut at {cut}");
        }
        blob.push(0);
        assert_eq!(decode(&blob), None);
        assert_eq!(decode(&[0xff; 64]), None);
    }
}
