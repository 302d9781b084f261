//! What a call and a chunk may allocate, both sides together: counted, so it is the same on every machine. A change that
//! needs more has to say so here.

use std::future::Future;

use allocation_counter::measure;
use napp::{App, EventContext, Payload};
use tokio::runtime::Runtime;

/// Both Apps run on the thread whose allocations are counted.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

async fn pair() -> (App, App) {
    let world = App::builder("world")
        .listen("tcp://127.0.0.1:0")
        .unwrap()
        .ability("double", |n: u64| async move { Ok(2 * n) })
        .event("chunks", |ctx: EventContext, count: u64| async move {
            let chunk = Payload::bytes(&[7; 1024]);
            for _ in 0..count {
                ctx.emit(&chunk).await?;
            }
            Ok(())
        })
        .start()
        .await
        .unwrap();
    let hello = App::builder("hello").start().await.unwrap();
    let url = &world.local_urls()[0];
    hello.connect("world", url).await.unwrap();
    (world, hello)
}

/// Allocations for each of `count` units, once everything that is allocated once is there.
fn per_unit<F: Future<Output = ()>>(runtime: &Runtime, count: u64, work: impl Fn(u64) -> F) -> f64 {
    runtime.block_on(work(count));
    let counted = measure(|| runtime.block_on(work(count)));
    counted.count_total as f64 / count as f64
}

#[test]
fn a_call_and_its_answer_make_two_allocations_at_most() {
    let runtime = runtime();
    let (_world, hello) = runtime.block_on(pair());
    let allocations = per_unit(&runtime, 20_000, |count| {
        let hello = hello.clone();
        async move {
            let callers: Vec<_> = (0..50)
                .map(|_| {
                    let hello = hello.clone();
                    tokio::spawn(async move {
                        for n in 0..count / 50 {
                            let doubled: u64 = hello.call("world", "double", &n).await.unwrap();
                            assert_eq!(doubled, 2 * n);
                        }
                    })
                })
                .collect();
            for caller in callers {
                caller.await.unwrap();
            }
        }
    });
    println!("{allocations:.2} allocations for a call");
    assert!(allocations <= 2.0, "{allocations}");
}

#[test]
fn a_lossless_chunk_makes_two_allocations_at_most() {
    let runtime = runtime();
    let (_world, hello) = runtime.block_on(pair());
    let allocations = per_unit(&runtime, 20_000, |count| {
        let hello = hello.clone();
        async move {
            let mut stream = hello.event("world", "chunks", &count).await.unwrap();
            let mut came = 0;
            while let Some(chunk) = stream.next().await {
                assert_eq!(chunk.as_bytes().len(), 1024 + 3);
                came += 1;
            }
            assert_eq!(came, count);
            stream.response::<()>().await.unwrap();
        }
    });
    println!("{allocations:.2} allocations for a chunk");
    assert!(allocations <= 2.0, "{allocations}");
}
