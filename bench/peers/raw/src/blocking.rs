//! Ping-pong with one blocking thread on each side: what the kernel alone costs.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use yardstick::closed_loop::Tally;
use yardstick::{Args, Control, Failure, Load, control};

trait Socket: Read + Write {}
impl<S: Read + Write> Socket for S {}

/// Either side.
pub fn run(args: Args, mut control: Control) -> Result<(), Failure> {
    let load = Load::from_args(&args)?;
    let url = args.required("url")?;
    match args.role.as_str() {
        "blocking-server" => serve(url, load.payload),
        "blocking-client" => {
            let mut socket = connect(url)?;
            let (warm_up, stop) = (Tally::default(), control.stop_flag());
            let stopped = || stop.load(Ordering::Relaxed);
            ping(&mut socket, load.payload, load.warm_up, &stopped, &warm_up)?;
            control.warm_blocking();
            let tally = Tally::default();
            let begin = Instant::now();
            ping(&mut socket, load.payload, load.duration, &stopped, &tally)?;
            control::done(&tally.figures(begin.elapsed()));
            Ok(())
        }
        other => Err(format!("no such role: {other}").into()),
    }
}

fn serve(url: &str, payload: usize) -> Result<(), Failure> {
    let mut socket: Box<dyn Socket> = if let Some(path) = url.strip_prefix("unix://") {
        let listener = UnixListener::bind(path)?;
        control::ready();
        Box::new(listener.accept()?.0)
    } else {
        let listener = TcpListener::bind(url.trim_start_matches("tcp://"))?;
        control::ready();
        let socket = listener.accept()?.0;
        socket.set_nodelay(true)?;
        Box::new(socket)
    };
    let mut body = vec![0; payload];
    loop {
        match socket.read_exact(&mut body) {
            Err(end) if end.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        }
        socket.write_all(&body)?;
    }
}

fn connect(url: &str) -> Result<Box<dyn Socket>, Failure> {
    if let Some(path) = url.strip_prefix("unix://") {
        return Ok(Box::new(UnixStream::connect(path)?));
    }
    let socket = TcpStream::connect(url.trim_start_matches("tcp://"))?;
    socket.set_nodelay(true)?;
    Ok(Box::new(socket))
}

fn ping(
    socket: &mut Box<dyn Socket>,
    payload: usize,
    duration: Duration,
    stopped: &dyn Fn() -> bool,
    tally: &Tally,
) -> Result<(), Failure> {
    let mut body = vec![7; payload];
    let mut begin = Instant::now();
    let until = begin + duration;
    while begin < until && !stopped() {
        socket.write_all(&body)?;
        socket.read_exact(&mut body)?;
        let end = Instant::now();
        tally.latency.record(end - begin);
        tally.units.fetch_add(1, Ordering::Relaxed);
        begin = end;
    }
    Ok(())
}
