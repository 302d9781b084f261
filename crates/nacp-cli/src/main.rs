//! The `nacp` command. Everything is in the library, where tests reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    nacp_cli::run()
}
