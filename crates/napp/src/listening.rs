//! Connections that others make. What this module keeps true: a listener works when the App has started; the number of
//! connections that have not registered is bounded, and more wait in the transport's own queue.

use std::sync::Arc;

use nacp::Role;
use nact::Listener;
use tokio::sync::Semaphore;

use crate::driver::Shared;

/// Connections without a register, over all listeners of an App. Each has 10 s to register.
pub(crate) const UNREGISTERED_MAX: usize = 1_024;

pub(crate) async fn accept(
    shared: Arc<Shared>,
    mut listener: Box<dyn Listener>,
    unregistered: Arc<Semaphore>,
) {
    let url = listener.local_url();
    tracing::info!(%url, "listening");
    let name: Arc<str> = url.to_string().into();
    let mut stop = shared.stop.subscribe();
    loop {
        let next = async {
            let permit = Arc::clone(&unregistered).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, channel) = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            next = next => next,
        };
        match channel {
            Ok(channel) => {
                let listener = Some(Arc::clone(&name));
                drop(shared.adopt(channel, Role::Acceptor, permit.ok(), listener));
            }
            Err(error) => {
                tracing::error!(%url, %error, "stopped listening");
                return;
            }
        }
    }
}
