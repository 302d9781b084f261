//! Socket files: stale ones, foreign ones, and several starters at once (B62).
#![cfg(unix)]

use std::fs;
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use nact::{ListenError, Listener, Transports};
use tokio::runtime::{Builder, Runtime};

struct Directory(tempfile::TempDir);

impl Directory {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn socket(&self) -> PathBuf {
        self.0.path().join("a.sock")
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn url(path: &Path) -> String {
    format!("unix://{}", path.display())
}

async fn listen(path: &Path) -> Result<Box<dyn Listener>, ListenError> {
    Transports::default().listen(&url(path)).await
}

/// What a killed process leaves behind: std does not remove the file.
fn leave_stale(path: &Path) {
    drop(StdListener::bind(path).unwrap());
}

#[tokio::test]
async fn the_socket_file_of_a_killed_process_is_replaced_b62() {
    let directory = Directory::new();
    leave_stale(&directory.socket());
    let mut listener = listen(&directory.socket()).await.unwrap();
    let (transports, url) = (Transports::default(), url(&directory.socket()));
    let (near, far) = tokio::join!(transports.dial(&url), listener.accept());
    assert!(near.is_ok() && far.is_ok());
    drop(listener);
    assert_eq!(directory.names(), [""; 0], "nothing is left behind");
}

#[test]
fn of_two_starters_exactly_one_wins_and_the_loser_spoils_nothing_b62() {
    const ROUNDS: usize = 1000;
    let directory = Directory::new();
    let path = directory.socket();
    // All three meet: both have tried; the loser is gone; the winner is gone.
    let barrier = Barrier::new(3);
    let starter = || {
        let runtime = runtime();
        let _guard = runtime.enter();
        (0..ROUNDS)
            .map(|_| {
                barrier.wait();
                let outcome = runtime.block_on(listen(&path));
                let has_won = outcome.is_ok();
                if let Err(error) = &outcome {
                    assert!(
                        matches!(error, ListenError::AlreadyListening { .. }),
                        "{error:?}"
                    );
                }
                barrier.wait();
                barrier.wait();
                drop(outcome);
                barrier.wait();
                has_won
            })
            .collect::<Vec<bool>>()
    };
    std::thread::scope(|scope| {
        let starters = [scope.spawn(starter), scope.spawn(starter)];
        let (runtime, transports) = (runtime(), Transports::default());
        for round in 0..ROUNDS {
            if round % 2 == 0 {
                leave_stale(&path);
            }
            barrier.wait();
            barrier.wait();
            let dialled = runtime.block_on(transports.dial(&url(&path)));
            assert!(dialled.is_ok(), "round {round}: the winner is reachable");
            barrier.wait();
            barrier.wait();
            assert_eq!(directory.names(), [""; 0], "round {round}");
        }
        let [one, other] = starters.map(|starter| starter.join().unwrap());
        assert!(
            one.iter().zip(&other).all(|(one, other)| one != other),
            "exactly one wins each round"
        );
    });
}

#[test]
fn starters_that_meet_an_ending_listener_never_both_win_b62() {
    const ROUNDS: usize = 2000;
    let directory = Directory::new();
    let (path, owners, wins) = (directory.socket(), AtomicUsize::new(0), AtomicUsize::new(0));
    let starter = || {
        let runtime = runtime();
        for _ in 0..ROUNDS {
            if let Ok(listener) = runtime.block_on(listen(&path)) {
                assert_eq!(owners.fetch_add(1, SeqCst), 0, "two listen at one path");
                assert!(path.exists(), "the winner's file is there");
                owners.fetch_sub(1, SeqCst);
                wins.fetch_add(1, SeqCst);
                drop(listener);
            }
        }
    };
    std::thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(starter))));
    assert!(wins.into_inner() > 0);
    assert_eq!(directory.names(), [""; 0]);
}

#[tokio::test]
async fn the_end_of_a_listener_does_not_remove_the_file_of_another_b62() {
    let directory = Directory::new();
    let listener = listen(&directory.socket()).await.unwrap();
    // Somebody who does not know the lock takes the path by force.
    fs::remove_file(directory.socket()).unwrap();
    let _other = StdListener::bind(directory.socket()).unwrap();
    drop(listener);
    assert_eq!(directory.names(), ["a.sock"]);
}

#[tokio::test]
async fn a_living_listener_that_knows_no_lock_is_not_replaced_b62() {
    let directory = Directory::new();
    let _other = StdListener::bind(directory.socket()).unwrap();
    let error = listen(&directory.socket()).await.unwrap_err();
    assert!(
        matches!(error, ListenError::AlreadyListening { .. }),
        "{error:?}"
    );
    assert_eq!(directory.names(), ["a.sock"]);
}

#[tokio::test]
async fn a_file_that_is_no_socket_is_left_alone() {
    let directory = Directory::new();
    fs::write(directory.socket(), "precious").unwrap();
    let error = listen(&directory.socket()).await.unwrap_err();
    assert!(matches!(error, ListenError::NotASocket { .. }), "{error:?}");
    assert_eq!(fs::read_to_string(directory.socket()).unwrap(), "precious");
}

#[tokio::test]
async fn a_path_that_cannot_be_is_a_clear_error() {
    let directory = Directory::new();
    let error = listen(&directory.socket().join("missing/a.sock"))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("missing/a.sock"), "{error}");
    let error = listen(&directory.0.path().join("long".repeat(40)))
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "listen-failed");
    assert_eq!(directory.names(), [""; 0]);
}
