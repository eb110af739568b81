//! What a download is read from.

use super::failure::Failure;

/// Something that is read from front to end.
pub trait Source: Send {
    /// Writes as many bytes as fit and are there; fewer than fit only at the end.
    fn fill(&mut self, out: &mut [u8]) -> Result<usize, Failure>;
}
