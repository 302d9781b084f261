//! The nacp command.
fn main() {}
