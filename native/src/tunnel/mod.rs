pub mod frames;
mod mask;
pub mod crypto;
pub mod noise;
