//! Handlers: the user's functions behind one shape, and how they fail. What this module keeps true: whatever a handler
//! takes or gives, the driver sees payloads only; a request that does not fit is answered `bad-payload`, never dropped.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::future::{Future, ready};
use std::sync::Arc;

use nacp::message::{PayloadEncoder, PayloadError};
use nacp::{Declaration, Declared, Payload, RequestKind};
use nact::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::driver::Table;
use crate::error::StartError;
use crate::serving::ServingCell;

/// Why a handler failed: the text that the requester gets as `whyNotOk`.
///
/// Anything that can be displayed turns into one, so `?` works on every error, and `Err("no such city".into())` too.
/// That is why it is no `std::error::Error` itself.
///
/// ```
/// use napp::HandlerError;
/// fn parse(text: &str) -> Result<u8, HandlerError> {
///     if text.is_empty() { return Err("nothing to parse".into()) }
///     Ok(text.parse()?)
/// }
/// assert_eq!(parse("").unwrap_err().why(), "nothing to parse");
/// assert_eq!(parse("x").unwrap_err().why(), "invalid digit found in string");
/// ```
pub struct HandlerError {
    why: String,
}

impl HandlerError {
    /// The text for the requester.
    pub fn why(&self) -> &str {
        &self.why
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HandlerError({:?})", self.why)
    }
}

// The alternate form: errors that know their causes (anyhow's) print them there.
impl<E: fmt::Display> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self {
            why: format!("{error:#}"),
        }
    }
}

/// What a handler comes to.
pub(crate) type Reply = Result<Payload, HandlerError>;

type Replying = BoxFuture<'static, Reply>;

/// The user's function.
pub(crate) enum Run {
    /// It sees the request's payload and nothing else.
    Plain(Box<dyn Fn(Payload) -> Replying + Send + Sync>),
    /// It knows of its request, and can be steered through it.
    Steered(Box<dyn Fn(Arc<ServingCell>, Payload) -> Replying + Send + Sync>),
}

impl Run {
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Self::Plain(_))
    }
}

/// One handler.
pub(crate) struct Registered {
    pub(crate) run: Run,
    description: String,
    pub(crate) detached: bool,
}

/// All handlers of an App, by kind and name. Fixed once the App has started.
#[derive(Default)]
pub(crate) struct Handlers {
    abilities: Table<String, Arc<Registered>>,
    events: Table<String, Arc<Registered>>,
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers")
            .field("abilities", &self.abilities.keys())
            .field("events", &self.events.keys())
            .finish()
    }
}

impl Handlers {
    pub(crate) fn find(&self, kind: RequestKind, name: &str) -> Option<&Arc<Registered>> {
        match kind {
            RequestKind::Ability => self.abilities.get(name),
            RequestKind::Event => self.events.get(name),
        }
    }

    pub(crate) fn add(
        &mut self,
        kind: RequestKind,
        name: String,
        run: Run,
    ) -> Result<(), StartError> {
        if kind == RequestKind::Ability && name.starts_with("NApp.") {
            return Err(StartError::ReservedName { name });
        }
        let handlers = match kind {
            RequestKind::Ability => &mut self.abilities,
            RequestKind::Event => &mut self.events,
        };
        if handlers.contains_key(&name) {
            let kind = kind.as_str();
            return Err(StartError::DuplicateHandler { kind, name });
        }
        let registered = Registered {
            run,
            description: String::new(),
            detached: false,
        };
        handlers.insert(name, Arc::new(registered));
        Ok(())
    }

    /// Changes every handler of that name, ability and event.
    pub(crate) fn change(
        &mut self,
        name: &str,
        change: impl Fn(&mut Registered),
    ) -> Result<(), StartError> {
        let mut found = false;
        for handlers in [&mut self.abilities, &mut self.events] {
            // Nobody else holds it before the App has started.
            if let Some(registered) = handlers.get_mut(name).and_then(Arc::get_mut) {
                change(registered);
                found = true;
            }
        }
        if found {
            Ok(())
        } else {
            Err(StartError::UnknownHandler { name: name.into() })
        }
    }

    /// What is told to others, by name.
    pub(crate) fn declaration(&self) -> Declaration {
        let list = |handlers: &Table<String, Arc<Registered>>| {
            let mut list: Vec<_> = handlers
                .iter()
                .map(|(name, registered)| Declared {
                    name: name.clone(),
                    description: registered.description.clone(),
                })
                .collect();
            list.sort_by(|a, b| a.name.cmp(&b.name));
            list
        };
        Declaration {
            events: list(&self.events),
            abilities: list(&self.abilities),
        }
    }
}

impl Registered {
    pub(crate) fn describe(&mut self, text: &str) {
        text.clone_into(&mut self.description);
    }
}

/// Puts a typed function behind the one shape.
pub(crate) fn erase<T, R, Fut>(
    handler: impl Fn(Arc<ServingCell>, T) -> Fut + Send + Sync + 'static,
) -> Run
where
    T: DeserializeOwned + 'static,
    R: Serialize + 'static,
    Fut: Future<Output = Result<R, HandlerError>> + Send + 'static,
{
    Run::Steered(Box::new(move |cell, payload| {
        reply(payload, |input| handler(cell, input))
    }))
}

/// As [`erase`], for a function of the payload alone.
pub(crate) fn erase_plain<T, R, Fut>(handler: impl Fn(T) -> Fut + Send + Sync + 'static) -> Run
where
    T: DeserializeOwned + 'static,
    R: Serialize + 'static,
    Fut: Future<Output = Result<R, HandlerError>> + Send + 'static,
{
    Run::Plain(Box::new(move |payload| reply(payload, &handler)))
}

fn reply<T, R, Fut>(payload: Payload, handler: impl FnOnce(T) -> Fut) -> Replying
where
    T: DeserializeOwned + 'static,
    R: Serialize + 'static,
    Fut: Future<Output = Result<R, HandlerError>> + Send + 'static,
{
    match decode::<T>(payload) {
        Ok(input) => {
            let output = handler(input);
            Box::pin(async move {
                encode(output.await?).map_err(|error| format!("bad-response: {error}").into())
            })
        }
        Err(error) => Box::pin(ready(Err(format!("bad-payload: {error}").into()))),
    }
}

/// Reads a payload as a type; as a [`Payload`] it is handed through.
pub(crate) fn decode<T: DeserializeOwned + 'static>(payload: Payload) -> Result<T, PayloadError> {
    let mut slot = Some(payload);
    if let Some(same) = (&mut slot as &mut dyn Any).downcast_mut::<Option<T>>() {
        return Ok(same.take().expect("filled two lines above"));
    }
    slot.expect("only taken when returned").decode()
}

/// Writes a value as a payload; a [`Payload`] is handed through.
fn encode<R: Serialize + 'static>(value: R) -> Result<Payload, PayloadError> {
    let mut slot = Some(value);
    if let Some(same) = (&mut slot as &mut dyn Any).downcast_mut::<Option<Payload>>() {
        return Ok(same.take().expect("filled two lines above"));
    }
    encode_payload(&slot.expect("only taken when returned"))
}

thread_local! {
    static ENCODER: RefCell<PayloadEncoder> = RefCell::default();
}

/// Writes a value as a payload that will not stay for long.
pub(crate) fn encode_payload<T: Serialize + ?Sized>(value: &T) -> Result<Payload, PayloadError> {
    ENCODER.with(|encoder| match encoder.try_borrow_mut() {
        Ok(mut encoder) => encoder.encode(value),
        // A `Serialize` that makes a payload itself.
        Err(_) => Payload::encode(value),
    })
}
