//! The command as people use it: the real binary, real sockets, real signals. No test waits for a time to pass; each
//! waits for a line, or for an end.

#[path = "command/calling.rs"]
mod calling;
#[path = "command/decoding.rs"]
mod decoding;
#[path = "command/demonstration.rs"]
mod demonstration;
#[cfg(unix)]
#[path = "command/freezing.rs"]
mod freezing;
#[cfg(unix)]
#[path = "command/gateway.rs"]
mod gateway;
#[path = "command/program.rs"]
#[cfg_attr(unix, expect(dead_code, reason = "other tests need more of it"))]
mod program;
#[cfg(unix)]
#[path = "command/security.rs"]
mod security;
#[path = "command/settings.rs"]
mod settings;
#[path = "command/streaming.rs"]
mod streaming;
#[path = "command/usage.rs"]
mod usage;
