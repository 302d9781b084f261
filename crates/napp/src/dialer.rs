//! Connections that this App makes, and makes again (LINK-17). What this module keeps true: one loop per remote App;
//! every attempt registers anew; attempts of many programs spread out, the first one included; it ends only when the
//! link is no longer wanted: our own disconnect, the remote's unregister, or the App's end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nacp::{AppId, CloseReason, DropCause, LinkState, Reach, Role};
use tokio::sync::{Notify, oneshot, watch};

use crate::driver::{Shared, State};
use crate::error::ConnectError;
use crate::link::LinkStatus;
use crate::peer::Registered;

/// A caller that waits for a link.
#[derive(Debug)]
struct Waiter {
    result: oneshot::Sender<Result<(), ConnectError>>,
    /// Only a link, or the end of all attempts, is a result.
    is_patient: bool,
}

/// What the loop and its callers share.
#[derive(Debug)]
pub(crate) struct Dialing {
    wanted: Mutex<Wanted>,
    /// The link changed, or a caller is in a hurry. The loop alone listens.
    changed: Notify,
    stop: watch::Sender<bool>,
}

#[derive(Debug)]
struct Wanted {
    url: String,
    /// Somebody wants the attempts to go on although the first one failed.
    keeps_trying: bool,
    /// Skip the present delay.
    hurry: bool,
    waiters: Vec<Waiter>,
}

impl Dialing {
    fn new(url: &str, keeps_trying: bool) -> Self {
        Self {
            wanted: Mutex::new(Wanted {
                url: url.to_owned(),
                keeps_trying,
                hurry: false,
                waiters: Vec::new(),
            }),
            changed: Notify::new(),
            stop: watch::Sender::new(false),
        }
    }

    // No code that can panic runs under this lock.
    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn link_changed(&self, status: &LinkStatus) {
        if let LinkStatus::Dropped {
            cause: DropCause::Unregistered | DropCause::Disconnected,
        } = status
        {
            self.end();
        }
        self.changed.notify_one();
    }

    pub(crate) fn end(&self) {
        self.stop.send_replace(true);
    }

    fn is_over(&self) -> bool {
        *self.stop.borrow()
    }

    async fn over(&self) {
        let _ = self.stop.subscribe().wait_for(|stop| *stop).await;
    }

    /// Tells all who wait: there is a link, or there will be none.
    fn settle(&self, result: &Result<(), ConnectError>) {
        let waiters = std::mem::take(&mut self.wanted().waiters);
        for waiter in waiters {
            // Whoever waited may have lost interest.
            let _ = waiter.result.send(result.clone());
        }
    }

    /// Tells those who asked for one attempt.
    fn attempt_failed(&self, error: &ConnectError) {
        let mut wanted = self.wanted();
        let waiters = std::mem::take(&mut wanted.waiters);
        for waiter in waiters {
            if waiter.is_patient {
                wanted.waiters.push(waiter);
            } else {
                let _ = waiter.result.send(Err(error.clone()));
            }
        }
    }
}

impl Shared {
    /// Wants a link to `app` at `url`. Resolves with the result of the next attempt, or with that of the first that
    /// succeeds.
    pub(crate) async fn connect(
        self: &Arc<Self>,
        app: AppId,
        url: &str,
        keeps_trying: bool,
    ) -> Result<(), ConnectError> {
        if app == self.app {
            return Err(ConnectError::SelfAddressed {
                app: app.to_string(),
            });
        }
        let (sender, result) = oneshot::channel();
        let waiter = Waiter {
            result: sender,
            is_patient: keeps_trying,
        };
        let started = self.visit(|visit| {
            if visit.state.terminated {
                return Err(ConnectError::GivenUp);
            }
            let known = visit.state.dialing.get(&app);
            let known = known.filter(|dialing| !dialing.is_over()).cloned();
            let dialing = known
                .clone()
                .unwrap_or_else(|| Arc::new(Dialing::new(url, keeps_trying)));
            let mut wanted = dialing.wanted();
            url.clone_into(&mut wanted.url);
            wanted.keeps_trying |= keeps_trying;
            wanted.hurry = true;
            wanted.waiters.push(waiter);
            drop(wanted);
            dialing.changed.notify_one();
            let is_new = known.is_none();
            if is_new {
                visit
                    .state
                    .dialing
                    .insert(app.clone(), Arc::clone(&dialing));
            }
            Ok(Some(dialing).filter(|_| is_new))
        })?;
        if let Some(dialing) = started {
            self.spawn(keep_linked(Arc::clone(self), app, dialing));
        }
        result.await.unwrap_or(Err(ConnectError::GivenUp))
    }

    /// No further attempts. A pending one is given up.
    pub(crate) fn stop_dialing(self: &Arc<Self>, app: &AppId) {
        self.visit(|visit| {
            if let Some(dialing) = visit.state.dialing.remove(app) {
                dialing.end();
            }
        });
    }

    async fn attempt(self: &Arc<Self>, app: &AppId, dialing: &Dialing) -> Result<(), ConnectError> {
        self.metrics.dials.increment(1);
        let url = {
            let mut wanted = dialing.wanted();
            wanted.hurry = false;
            wanted.url.clone()
        };
        let channel = tokio::select! {
            biased;
            () = dialing.over() => return Err(ConnectError::GivenUp),
            channel = self.transports.dial(&url) => channel,
        };
        let channel = channel.map_err(|error| ConnectError::Dial(Arc::new(error)))?;
        let role = Role::Dialer {
            expect: app.clone(),
        };
        let Some((peer, handshake)) = self.adopt(channel, role, None, None) else {
            return Err(ConnectError::GivenUp);
        };
        let registered = tokio::select! {
            biased;
            registered = handshake => registered.unwrap_or(Registered::Down("closed".to_owned())),
            () = dialing.over() => {
                self.hang_up(peer);
                return Err(ConnectError::GivenUp);
            }
        };
        let app_name = app.to_string();
        Err(match registered {
            Registered::Online => return Ok(()),
            // Both dialled at once, and the other connection stands: the remote may have closed this one before we
            // heard why.
            Registered::Closed(CloseReason::Superseded) | Registered::Down(_)
                if self.look(|state| is_linked(state, app)) =>
            {
                return Ok(());
            }
            Registered::Closed(CloseReason::Refused(reason)) => ConnectError::Refused {
                app: app_name,
                reason,
            },
            Registered::Closed(CloseReason::ResponseTimeout) => {
                ConnectError::Timeout { app: app_name }
            }
            Registered::Closed(CloseReason::ExpectMismatch) => {
                ConnectError::ExpectMismatch { app: app_name }
            }
            Registered::Closed(CloseReason::Terminated) => ConnectError::GivenUp,
            Registered::Closed(reason) => ConnectError::PeerDown {
                app: app_name,
                reason: reason.reason().to_owned(),
            },
            Registered::Down(reason) => ConnectError::PeerDown {
                app: app_name,
                reason,
            },
        })
    }
}

/// Whether a direct connection to `app` stands, whoever dialled it.
fn is_linked(state: &State, app: &AppId) -> bool {
    matches!(state.nacp.link_state(app), Some(LinkState::Online { .. }))
        && state.nacp.reach(app) == Some(Reach::Direct)
}

/// The loop of one remote App.
async fn keep_linked(shared: Arc<Shared>, app: AppId, dialing: Arc<Dialing>) {
    // Attempts since a link last outlived the ceiling, the first one aside.
    let mut attempts = 0;
    let mut has_linked = false;
    let mut is_first = true;
    while !dialing.is_over() {
        if shared.look(|state| is_linked(state, &app)) {
            dialing.settle(&Ok(()));
            has_linked = true;
            if outlive(&shared, &app, &dialing).await {
                attempts = 0;
            }
            continue;
        }
        if !std::mem::take(&mut is_first) {
            delay(&shared, &dialing, attempts).await;
            attempts += 1;
            if dialing.is_over() || shared.look(|state| is_linked(state, &app)) {
                continue;
            }
        }
        match shared.attempt(&app, &dialing).await {
            Ok(()) => {
                dialing.settle(&Ok(()));
                has_linked = true;
            }
            Err(error) => {
                shared.metrics.dials_failed.increment(1);
                tracing::debug!(%app, %error, attempts, "an attempt to connect failed");
                if !has_linked && !dialing.wanted().keeps_trying {
                    return leave(&shared, &app, &dialing, error);
                }
                dialing.attempt_failed(&error);
            }
        }
    }
    leave(&shared, &app, &dialing, ConnectError::GivenUp);
}

/// Takes the loop out of the table before its last callers are told: nobody can join a loop that has ended.
fn leave(shared: &Arc<Shared>, app: &AppId, dialing: &Arc<Dialing>, error: ConnectError) {
    shared.visit(|visit| {
        dialing.end();
        let successor = visit.state.dialing.get(app);
        if successor.is_none_or(|current| Arc::ptr_eq(current, dialing)) {
            visit.state.dialing.remove(app);
            visit.nacp().forget_dialled(app);
        }
    });
    dialing.settle(&Err(error));
}

/// Waits until the link is down; tells whether it has outlived the ceiling of the backoff.
async fn outlive(shared: &Arc<Shared>, app: &AppId, dialing: &Dialing) -> bool {
    let since = shared.now();
    while !dialing.is_over() && shared.look(|state| is_linked(state, app)) {
        dialing.settle(&Ok(()));
        tokio::select! {
            () = dialing.over() => {}
            () = dialing.changed.notified() => {}
        }
    }
    // Who asked for a link while there was one did not ask for haste.
    dialing.wanted().hurry = false;
    shared.now() - since > shared.settings.backoff_ceiling
}

/// Full jitter: anything between nothing and the present backoff, from the first attempt on.
async fn delay(shared: &Arc<Shared>, dialing: &Dialing, attempts: u32) {
    let settings = &shared.settings;
    let backoff = settings
        .backoff_base
        .saturating_mul(2u32.saturating_pow(attempts))
        .min(settings.backoff_ceiling);
    let mut sleep = std::pin::pin!(tokio::time::sleep(fraction(backoff)));
    loop {
        if std::mem::take(&mut dialing.wanted().hurry) {
            return;
        }
        tokio::select! {
            biased;
            () = dialing.over() => return,
            () = &mut sleep => return,
            () = dialing.changed.notified() => {}
        }
    }
}

/// A random part of `whole`. Without randomness the whole: late is better than all at once.
fn fraction(whole: Duration) -> Duration {
    let mut bytes = [0; 4];
    match getrandom::fill(&mut bytes) {
        Ok(()) => whole.mul_f64(f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX)),
        Err(_) => whole,
    }
}
