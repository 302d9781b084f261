//! The runtime that a measured program runs on, the same two flavours for every peer.

use std::future::Future;

use crate::{Args, Failure};

/// Runs `main` on the flavour that `--runtime` names: `current` (the default) or `multi`, which has a worker for each
/// core that the process may run on. `main` is spawned: the thread that started the runtime is no worker of it, and
/// would add a wake-up across threads to everything.
pub fn run<F>(args: &Args, main: F) -> Result<(), Failure>
where
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let runtime = match args.text("runtime", "current") {
        "current" => tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?,
        "multi" => tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?,
        other => return Err(format!("no such runtime: {other}").into()),
    };
    runtime.block_on(async { tokio::spawn(main).await? })
}
