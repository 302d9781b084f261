//! Who may register: what the hook sees, what its word does, and what is left of whom it refuses.

mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use nacp::message::Meta;
use nacp::{Payload, RequestKind};
use napp::{App, ConnectError, Listener, Refusal, Value};
use support::frames::RawPeer;
use support::{Mode, Net, is_offline, is_online, quiet, settle, until, within};

async fn started(id: &str) -> App {
    quiet(id).start().await.unwrap()
}

/// The texts in what is on the bus already.
async fn heard(listener: &mut Listener) -> Vec<String> {
    let mut heard = Vec::new();
    while let Ok(Some(event)) =
        tokio::time::timeout(Duration::from_millis(1), listener.next()).await
    {
        let event: BTreeMap<String, Value> = event.decode().unwrap();
        let texts = event.into_iter().filter_map(|(key, value)| match value {
            Value::Text(text) => Some(format!("{key}={text}")),
            _ => None,
        });
        heard.push(texts.collect::<Vec<_>>().join(" "));
    }
    heard
}

#[tokio::test(start_paused = true)]
async fn who_is_refused_is_told_why_and_leaves_nothing() {
    let world = quiet("world")
        .listen("mem://refuses")
        .unwrap()
        .authorize(|who| match who.app().as_str() {
            "hello" => Ok(()),
            other => Err(format!("no room for {other}").into()),
        })
        .ability("double", |n: u32| async move { Ok(2 * n) });
    let world = world.start().await.unwrap();
    let mut links = world.listen("nacp:internal:napp:success").unwrap();
    let mut errors = world.listen("nacp:internal:register:error").unwrap();
    let before = world.snapshot();

    let mallory = started("mallory").await;
    let error = mallory.connect("world", "mem://refuses").await.unwrap_err();
    assert!(matches!(&error, ConnectError::Refused { app, .. } if app == "world"));
    assert_eq!(error.reason(), "no room for mallory");
    assert_eq!(
        error.to_string(),
        r#""world" refused the register: no room for mallory"#
    );
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(world.snapshot(), before, "the connection is gone, too");
    assert!(world.connected_apps().is_empty() && mallory.connected_apps().is_empty());
    assert_eq!(heard(&mut links).await, [] as [&str; 0]);
    let told = heard(&mut errors).await;
    assert_eq!(
        told,
        ["from=mallory fromPeerId=1 reason=no room for mallory"]
    );

    let hello = started("hello").await;
    hello.connect("world", "mem://refuses").await.unwrap();
    let double = hello.call::<_, u32>("world", "double", &4u32).await;
    assert_eq!(double.unwrap(), 8);
    assert_eq!(heard(&mut links).await.len(), 1);
}

#[tokio::test]
async fn the_hook_sees_what_the_register_says_and_whence_it_came() {
    let (seen, log) = (Arc::new(Mutex::new(Vec::new())), OnceLock::new());
    let _ = log.set(Arc::clone(&seen));
    let world = quiet("world")
        .listen("tcp://127.0.0.1:0")
        .unwrap()
        .listen("mem://sees")
        .unwrap()
        .authorize(move |who| {
            let abilities = &who.declaration().abilities;
            let has_one = abilities.iter().any(|ability| ability.name == "double");
            assert!(who.identity().is_none() && who.record().is_none());
            log.get().unwrap().lock().unwrap().push((
                who.app().to_string(),
                who.is_gateway(),
                has_one,
                who.address().map(|address| address.ip().to_string()),
                who.listener().unwrap().to_owned(),
                who.remote().to_owned(),
            ));
            Ok(())
        });
    let world = world.start().await.unwrap();
    let (tcp, mem) = (&world.local_urls()[0], &world.local_urls()[1]);
    let hello = quiet("hello")
        .gateway(true)
        .ability("double", |n: u32| async move { Ok(2 * n) });
    let hello = hello.start().await.unwrap();
    hello.connect("world", tcp).await.unwrap();
    started("near").await.connect("world", mem).await.unwrap();
    let mut seen = seen.lock().unwrap();
    let remote = std::mem::take(&mut seen[0].5);
    assert!(remote.starts_with("127.0.0.1:"), "{remote}");
    let local = Some("127.0.0.1".to_owned());
    let far = ("hello".into(), true, true, local, tcp.clone(), "".into());
    assert_eq!(seen[0], far);
    let remote = "a dialler of mem://sees".to_owned();
    let near = ("near".into(), false, false, None, mem.clone(), remote);
    assert_eq!(seen[1], near);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_panics_refuses_and_harms_nobody() {
    let world = quiet("world")
        .listen("mem://panics")
        .unwrap()
        .authorize(|who| {
            assert_ne!(who.app().as_str(), "mallory", "what the hook fears most");
            Ok(())
        })
        .ability("double", |n: u32| async move { Ok(2 * n) });
    let world = world.start().await.unwrap();
    let (hello, late) = (started("hello").await, started("late").await);
    hello.connect("world", "mem://panics").await.unwrap();
    let mallory = started("mallory").await;
    let error = mallory.connect("world", "mem://panics").await.unwrap_err();
    assert_eq!(error.reason(), "authorize-panicked");
    late.connect("world", "mem://panics").await.unwrap();
    for app in [&hello, &late] {
        let double = app.call::<_, u32>("world", "double", &4u32).await;
        assert_eq!(double.unwrap(), 8);
    }
    assert_eq!(world.connected_apps().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_hook_may_use_the_app_and_all_hooks_must_agree() {
    let (cell, asked) = (
        Arc::new(OnceLock::<App>::new()),
        Arc::new(AtomicUsize::new(0)),
    );
    let (inside, count) = (Arc::clone(&cell), Arc::clone(&asked));
    let world = quiet("world")
        .listen("mem://full")
        .unwrap()
        .authorize(move |_| {
            // With a lock held this would never end.
            let linked = inside.get().unwrap().connected_apps().len();
            if linked < 1 {
                Ok(())
            } else {
                Err("full".into())
            }
        })
        .authorize(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            Ok(())
        });
    let world = world.start().await.unwrap();
    cell.set(world).unwrap();
    let (first, second) = (started("first").await, started("second").await);
    first.connect("world", "mem://full").await.unwrap();
    let error = second.connect("world", "mem://full").await.unwrap_err();
    assert_eq!(error.reason(), "full");
    assert_eq!(asked.load(Ordering::SeqCst), 1, "the first no is the last");
}

#[tokio::test(start_paused = true)]
async fn who_is_refused_too_often_is_refused_unheard_until_time_has_passed() {
    let (asked, is_open) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let (count, open) = (Arc::clone(&asked), Arc::clone(&is_open));
    let world = quiet("world")
        .listen("mem://often")
        .unwrap()
        .refusals_max(3)
        .authorize(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            let is_open = open.load(Ordering::SeqCst);
            is_open.then_some(()).ok_or("closed".into())
        });
    let _world = world.start().await.unwrap();
    let hello = started("hello").await;
    let attempt = async || hello.connect("world", "mem://often").await.unwrap_err();
    for _ in 0..3 {
        assert_eq!(attempt().await.reason(), "closed");
    }
    for _ in 0..10 {
        let error = attempt().await;
        assert_eq!(error.reason(), "refused-too-often");
        assert!(error.to_string().contains("wait"), "{error}");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(attempt().await.reason(), "closed", "one is forgotten");
    assert_eq!(attempt().await.reason(), "refused-too-often");
    is_open.store(true, Ordering::SeqCst);
    within(hello.connect_patiently("world", "mem://often"))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn link_13_link_17_who_is_refused_when_it_comes_back_is_kept_for_its_grace() {
    let is_open = Arc::new(AtomicBool::new(true));
    let open = Arc::clone(&is_open);
    let world = quiet("world")
        .listen("mem://again")
        .unwrap()
        .authorize(move |_| {
            let is_open = open.load(Ordering::SeqCst);
            is_open.then_some(()).ok_or(Refusal::new("closed"))
        })
        .ability("double", |n: u32| async move { Ok(2 * n) });
    let world = world.start().await.unwrap();
    let net = Net::default();
    let hello = quiet("hello").transports(net.transports());
    let hello = hello
        .ability("half", |n: u32| async move { Ok(n / 2) })
        .start()
        .await
        .unwrap();
    hello.connect("world", "net://again").await.unwrap();
    let mut link = world.link("hello").unwrap();
    until(&mut link, is_online).await;

    is_open.store(false, Ordering::SeqCst);
    net.line().set(Mode::Cut);
    until(&mut link, is_offline).await;
    let waiting = tokio::spawn({
        let world = world.clone();
        async move { world.call::<_, u32>("hello", "half", &8u32).await }
    });
    let dials = net.dials();
    within(async {
        while net.dials() < dials + 3 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    settle().await;
    assert!(!waiting.is_finished());
    is_open.store(true, Ordering::SeqCst);
    assert_eq!(within(waiting).await.unwrap().unwrap(), 4);
    until(&mut link, is_online).await;
}

#[tokio::test]
async fn what_comes_right_behind_a_register_waits_for_the_verdict() {
    let world = quiet("world")
        .listen("tcp://127.0.0.1:0")
        .unwrap()
        .authorize(|_| Ok(()))
        .ability("double", |n: u32| async move { Ok(2 * n) });
    let world = world.start().await.unwrap();
    let mut errors = world.listen("nact:peer:error").unwrap();
    let request = Meta::Request {
        kind: RequestKind::Ability,
        target: Some("double".into()),
    };
    let four = Payload::encode(&4u32).unwrap();
    let _peer =
        RawPeer::register_and_ask("hello", "world", &world.local_urls()[0], request, &four).await;
    let quiet = std::pin::pin!(errors.next());
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(quiet.poll(&mut cx).is_pending(), "nothing was out of turn");
}

#[tokio::test(start_paused = true)]
async fn whom_this_app_dials_it_does_not_ask_about() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let hello = quiet("hello").authorize(move |who| {
        log.lock().unwrap().push(who.listener().map(str::to_owned));
        Err("nobody".into())
    });
    let hello = hello.start().await.unwrap();
    let world = quiet("world").listen("mem://dialled").unwrap();
    let world = world.start().await.unwrap();
    hello.connect("world", "mem://dialled").await.unwrap();
    assert!(asked.lock().unwrap().is_empty(), "whom we dial we want");
    assert_eq!(world.connected_apps().len(), 1);
}
