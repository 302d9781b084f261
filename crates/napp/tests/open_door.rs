//! The warning about an App that everybody may register with.

mod support;

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use nact::web::{Refusal, Web, WebConfig};
use napp::Builder;
use support::quiet;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Keeps what is warned of.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// What is warned of while the App starts.
async fn warnings(builder: Builder) -> Vec<String> {
    let warnings = Warnings::default();
    let _guard = tracing::subscriber::set_default(warnings.clone());
    let _app = builder.start().await.unwrap();
    let said = warnings.0.lock().unwrap();
    said.clone()
}

fn listening(urls: &[&str]) -> Builder {
    urls.iter()
        .fold(quiet("world"), |builder, url| builder.listen(url).unwrap())
}

#[tokio::test]
async fn an_app_open_to_the_network_in_plaintext_warns_once_and_says_what_to_do() {
    let open = listening(&["tcp://0.0.0.0:0", "ws://0.0.0.0:0", "tcp://127.0.0.1:0"]);
    let said = warnings(open).await;
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("tcp://0.0.0.0:") && said[0].contains("ws://0.0.0.0:"));
    assert!(!said[0].contains("127.0.0.1"), "{said:?}");
    for advice in ["tls://", "Builder::authorize", "Builder::identities"] {
        assert!(said[0].contains(advice), "{said:?}");
    }
}

#[tokio::test]
async fn an_app_that_asks_or_stays_at_home_warns_of_nothing() {
    let open = || listening(&["tcp://0.0.0.0:0"]);
    let mut guarded = napp::Transports::default();
    let config = WebConfig::default().with_authorisation(|_| Err(Refusal::Forbidden));
    guarded.register(Web::new(config));
    for builder in [
        listening(&["tcp://127.0.0.1:0", "mem://open-door"]),
        open().authorize(|_| Ok(())),
        open().identities([("reports.example", ["reports"])]),
        listening(&["ws://0.0.0.0:0"]).transports(guarded),
    ] {
        assert_eq!(warnings(builder).await, [] as [String; 0]);
    }
}
