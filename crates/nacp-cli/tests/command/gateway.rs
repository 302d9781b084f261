//! `nacp gateway` between programs of their own.

use crate::program::{Program, listening, run, start};

#[test]
fn apps_that_know_only_the_gateway_reach_each_other() {
    let (mut gateway, url) = listening(&["gateway", "--listen", "tcp://127.0.0.1:0"]);
    let link = format!("gateway={url}");
    let mut world = start(&["serve", "--id", "world", "--connect", &link]);
    world.line(|line| line == "world is connected to gateway");
    let call = |app, ability| {
        run(&[
            "call",
            app,
            ability,
            "7",
            "--via",
            "gateway",
            "--connect",
            &url,
        ])
    };
    assert_eq!(call("world", "echo").succeeded(), ["7"]);
    call("mars", "echo").failed(1, &["no-route"]);
    // It forwards, and has nothing of its own to offer.
    let ended = run(&["introduce", "gateway", "--json", "--connect", &url]);
    assert_eq!(ended.succeeded(), [r#"{"events":[],"abilities":[]}"#]);
    gateway.interrupt();
    gateway.complaint(|line| line.contains("leaving"));
    gateway.ended().succeeded();
}

#[test]
fn a_program_that_starts_before_its_gateway_waits_for_it() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("tcp://{}", free.local_addr().unwrap());
    drop(free);
    let link = format!("gateway={url}");
    let mut world = start(&["serve", "--connect", &link]);
    let _gateway = listening(&["gateway", "--listen", &url]);
    world.line(|line| line == "world is connected to gateway");
}

/// The socket file of a Gateway that was killed lies there when two start at once: one of them listens, and the end of the
/// other, which says why, takes nothing along.
#[test]
fn b62_of_two_gateways_that_start_on_the_socket_of_a_killed_one_exactly_one_listens() {
    const ROUNDS: usize = 60;
    let directory = tempfile::tempdir().unwrap();
    let url = format!("unix:{}", directory.path().join("gateway.sock").display());
    let gateway = ["gateway", "--listen", &url];
    let mut holder = start(&gateway).listens_or_ended().unwrap();
    for round in 0..ROUNDS {
        holder.kill();
        let two = [start(&gateway), start(&gateway)].map(Program::listens_or_ended);
        let (winner, loser) = match two {
            [Ok(winner), Err(loser)] | [Err(loser), Ok(winner)] => (winner, loser),
            [one, other] => panic!("round {round}: {:?}, {:?}", one.map(drop), other.map(drop)),
        };
        loser.failed(1, &["somebody is already listening there"]);
        run(&["introduce", "gateway", "--connect", &url]).succeeded();
        holder = winner;
    }
}
