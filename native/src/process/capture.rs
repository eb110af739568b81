//! What a poll reports of one stream: its first bytes, up to a limit.

/// The first bytes of one stream.
///
/// Invariant: `bytes.len() <= limit`, and `cut` is set exactly when a byte beyond `limit` was seen.
pub struct Capture {
    bytes: Vec<u8>,
    limit: usize,
    cut: bool,
}

impl Capture {
    /// An empty capture of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            bytes: Vec::new(),
            limit,
            cut: false,
        }
    }

    /// Takes what fits of `bytes`.
    pub fn push(&mut self, bytes: &[u8]) {
        let taken = bytes.len().min(self.limit - self.bytes.len());
        let wanted = self.bytes.len() + taken;
        if wanted > self.bytes.capacity() {
            // Doubling that never passes the limit: Vec's own growth would.
            let target = wanted.next_power_of_two().max(256).min(self.limit);
            self.bytes.reserve_exact(target - self.bytes.len());
        }
        self.bytes.extend_from_slice(&bytes[..taken]);
        self.cut |= taken < bytes.len();
    }

    /// Whether bytes beyond the limit were left out.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Bytes captured.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing is captured.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Copies from `offset` into `out`; returns the number of bytes.
    pub fn read(&self, offset: usize, out: &mut [u8]) -> usize {
        let rest = self.bytes.get(offset..).unwrap_or_default();
        let count = rest.len().min(out.len());
        out[..count].copy_from_slice(&rest[..count]);
        count
    }

    /// Gives the memory back; `cut` stays, it is part of the outcome.
    pub fn free(&mut self) {
        self.bytes = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_limit_is_not_cut_and_one_byte_more_is() {
        let mut capture = Capture::new(4);
        capture.push(b"abcd");
        assert!(!capture.is_cut());
        capture.push(b"");
        assert!(!capture.is_cut());
        capture.push(b"e");
        assert!(capture.is_cut());
        let mut out = [0; 9];
        assert_eq!(capture.read(1, &mut out), 3);
        assert_eq!(&out[..3], b"bcd");
        assert_eq!(capture.read(9, &mut out), 0);
    }
}
