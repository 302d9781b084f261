//! The commands of the test. What this module keeps true: each runs on its own, so that one that waits holds up no other;
//! each is answered once, with its number; what comes of it later is reported under the same number.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use napp::{App, CallError, CallOptions, Payload, Shutdown, SignalKind};
use serde::Deserialize;
use serde_json::{Value as Json, json};
use tokio::sync::mpsc;

use crate::report::{hex, report, unhex};

/// One line of the test.
#[derive(Deserialize)]
pub struct Numbered {
    number: u64,
    #[serde(flatten)]
    command: Command,
}

#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "camelCase")]
enum Command {
    Connect {
        app: String,
        url: String,
    },
    Disconnect {
        app: String,
    },
    Call {
        app: String,
        name: String,
        payload: String,
    },
    Event {
        app: String,
        name: String,
        payload: String,
    },
    Signal {
        call: u64,
        kind: String,
        payload: Option<String>,
    },
    Subscribe {
        app: String,
        pattern: String,
    },
    Unsubscribe {
        subscription: u64,
    },
    Emit {
        name: String,
        payload: String,
    },
    Listen {
        pattern: String,
    },
    Links,
    Shutdown,
}

type Result<T, E = String> = std::result::Result<T, E>;

/// One App and what the test has begun with it.
#[derive(Clone)]
pub struct Session {
    app: App,
    calls: Rc<RefCell<HashMap<u64, Begun>>>,
    subscriptions: Rc<RefCell<HashMap<u64, mpsc::Sender<()>>>>,
}

/// An event call, as a signal wants to name it.
#[derive(Clone)]
struct Begun {
    app: String,
    request: String,
}

/// The short text of an error; what the remote said, when it said no.
fn why(error: CallError) -> String {
    match error {
        CallError::NotOk { why, .. } => why,
        other => other.reason().into(),
    }
}

impl Session {
    pub fn new(app: App) -> Self {
        Self {
            app,
            calls: Rc::default(),
            subscriptions: Rc::default(),
        }
    }

    /// Starts a command and answers it when it is done.
    pub fn start(&self, Numbered { number, command }: Numbered) {
        let session = self.clone();
        tokio::task::spawn_local(async move {
            match session.run(number, command).await {
                Ok(value) => report(&json!({ "number": number, "ok": value })),
                Err(error) => report(&json!({ "number": number, "error": error })),
            }
        });
    }

    async fn run(&self, number: u64, command: Command) -> Result<Json> {
        let app = &self.app;
        match command {
            Command::Connect { app: to, url } => {
                let connected = app.connect(&to, &url).await;
                connected.map_err(|error| error.reason().to_owned())?;
                Ok(Json::Null)
            }
            Command::Disconnect { app: from } => Ok(app.disconnect(&from).await.into()),
            Command::Call {
                app: to,
                name,
                payload,
            } => {
                let options = CallOptions::default();
                let called = app
                    .call_payload(&to, &name, &unhex(&payload)?, options)
                    .await;
                Ok(hex(&called.map_err(why)?).into())
            }
            Command::Event {
                app: to,
                name,
                payload,
            } => self.event(number, &to, &name, &unhex(&payload)?).await,
            Command::Signal {
                call,
                kind,
                payload,
            } => {
                let payload = payload.as_deref().map(unhex).transpose()?;
                let begun = self.calls.borrow().get(&call).cloned();
                let Begun { app: to, request } = begun.ok_or("no such call")?;
                // Not over the call itself: it is read meanwhile, whenever the ACK comes.
                let kind = kind_of(&kind)?;
                let sent = app.signal_to(&to, &request, kind, payload.as_ref()).await;
                Ok(sent.map_err(why)?.into())
            }
            Command::Subscribe { app: to, pattern } => self.subscribe(number, &to, &pattern).await,
            Command::Unsubscribe { subscription } => {
                let ended = self.subscriptions.borrow_mut().remove(&subscription);
                Ok(ended.is_some().into())
            }
            Command::Emit { name, payload } => {
                let heard = app.emit(&name, &unhex(&payload)?);
                Ok(heard.map_err(|error| error.to_string())?.into())
            }
            Command::Listen { pattern } => self.listen(&pattern),
            Command::Links => Ok(self.links()),
            Command::Shutdown => Ok(app.shutdown(Shutdown::Now).await.len().into()),
        }
    }

    /// Reports `request` with its id, then each chunk, then the response.
    async fn event(&self, number: u64, to: &str, name: &str, payload: &Payload) -> Result<Json> {
        let mut call = self.app.event(to, name, payload).await.map_err(why)?;
        let request = call.id().to_string();
        report(&json!({ "event": "request", "number": number, "id": request }));
        let app = to.to_owned();
        self.calls
            .borrow_mut()
            .insert(number, Begun { app, request });
        while let Some(chunk) = call.next().await {
            report(&json!({ "event": "chunk", "number": number, "payload": hex(&chunk) }));
        }
        self.calls.borrow_mut().remove(&number);
        Ok(hex(&call.response::<Payload>().await.map_err(why)?).into())
    }

    /// Answered when the remote agreed; then reports each hit, until it is unsubscribed.
    async fn subscribe(&self, number: u64, to: &str, pattern: &str) -> Result<Json> {
        let mut subscription = self.app.subscribe(to, pattern).await.map_err(why)?;
        let (end, mut ended) = mpsc::channel::<()>(1);
        self.subscriptions.borrow_mut().insert(number, end);
        tokio::task::spawn_local(async move {
            loop {
                tokio::select! {
                    _ = ended.recv() => {
                        let done = subscription.unsubscribe().await.map_err(why).err();
                        return report(&json!({ "event": "unsubscribed", "number": number, "error": done }));
                    }
                    hit = subscription.next() => match hit {
                        Some(hit) => report(&json!({ "event": "hit", "number": number, "name": hit.name, "payload": hex(&hit.payload) })),
                        None => return report(&json!({ "event": "hits-ended", "number": number })),
                    },
                }
            }
        });
        Ok(Json::Null)
    }

    fn listen(&self, pattern: &str) -> Result<Json> {
        let mut listener = self
            .app
            .listen(pattern)
            .map_err(|error| error.to_string())?;
        tokio::task::spawn_local(async move {
            while let Some(heard) = listener.next().await {
                report(
                    &json!({ "event": "bus", "name": &*heard.name, "payload": hex(&heard.payload) }),
                );
            }
        });
        Ok(Json::Null)
    }

    fn links(&self) -> Json {
        let links = self.app.connected_apps().into_iter().map(|link| {
            json!({ "app": link.app.as_str(), "online": link.is_online, "backlog": link.backlog, "unacked": link.unacked })
        });
        links.collect()
    }
}

fn kind_of(text: &str) -> Result<SignalKind> {
    let all = [
        SignalKind::Normal,
        SignalKind::Pause,
        SignalKind::Resume,
        SignalKind::Abort,
    ];
    let known = all.into_iter().find(|kind| kind.as_str() == text);
    known.ok_or_else(|| format!("no signal {text}"))
}
