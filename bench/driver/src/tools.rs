//! What there is on this machine: the brokers, and the versions of everything that takes part.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A broker's executable: what the environment names (`bench/run` sets it), or else what is installed.
pub fn find(variable: &str, name: &str) -> Result<PathBuf, String> {
    if let Some(reason) = std::env::var_os(format!("{variable}_MISSING")) {
        return Err(format!("{name} is missing: {}", reason.to_string_lossy()));
    }
    if let Some(path) = std::env::var_os(variable) {
        return Ok(PathBuf::from(path));
    }
    let dirs = std::env::var_os("PATH").unwrap_or_default();
    // Daemons are installed where an ordinary user's search path does not always go.
    let dirs = std::env::split_paths(&dirs).chain([PathBuf::from("/usr/sbin")]);
    dirs.map(|dir| dir.join(name))
        .find(|path| path.is_file())
        .ok_or_else(|| format!("{name} is missing: not installed"))
}

/// The first line that a program prints.
pub fn first_line(program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    Some(text.lines().next()?.trim().to_owned())
}

/// The versions of the libraries that are compared, from the lock file that they were built with.
pub fn locked_versions(lock_file: &Path) -> BTreeMap<String, String> {
    const WANTED: [&str; 10] = [
        "async-nats",
        "bincode",
        "hyper",
        "nacp",
        "nact",
        "napp",
        "rumqttc",
        "tarpc",
        "tokio",
        "tonic",
    ];
    let text = std::fs::read_to_string(lock_file).unwrap_or_default();
    let mut versions = BTreeMap::new();
    let mut name = "";
    for line in text.lines() {
        if let Some(value) = line.strip_prefix("name = ") {
            name = value.trim_matches('"');
        } else if let Some(version) = line.strip_prefix("version = ")
            && WANTED.contains(&name)
        {
            versions.insert(name.to_owned(), version.trim_matches('"').to_owned());
        }
    }
    versions
}

/// How busy the machine is: what else ran meanwhile shows in the figures.
pub fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.trim().to_owned()
}

/// The machine, in a few words.
pub fn machine() -> BTreeMap<String, String> {
    let cpu_info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu_info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown", |(_, model)| model);
    let facts = [
        ("cpu", Some(model.to_owned())),
        ("kernel", first_line("uname", &["-sr"])),
        ("load before", Some(load())),
        ("rustc", first_line("rustc", &["--version"])),
        (
            "commit",
            first_line("git", &["rev-parse", "--short", "HEAD"]),
        ),
    ];
    facts
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect()
}
