//! The subcommands, one file each.

pub mod call;
pub mod decode;
pub mod demo;
pub mod event;
pub mod gateway;
pub mod introduce;
pub mod serve;
pub mod signal;
pub mod sim;
pub mod sub;
