//! The `nacp` command as a library: what its own tests reach for.

pub mod captured;
pub mod cmd;
pub mod duration;
pub mod failure;
pub mod notation;
pub mod output;
pub mod proxy;
pub mod tree_hash;
