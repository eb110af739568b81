//! soak
use crate::Outcome;
use std::path::Path;
/// plan
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// c
    pub commands: usize,
}
impl Plan {
    /// l
    pub const LONG: Self = Self { commands: 20_000 };
}
/// r
pub fn run(_root: &Path, _plan: Plan) -> Outcome<bool> {
    Ok(true)
}
