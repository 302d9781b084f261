//! NACP, the protocol: messages, links, queues, waiters and timers as one state machine without I/O.

pub mod message;

pub use message::{AppId, InvalidAppId, MessageId, Payload, Value};
