//! `docs/promises.md` and `docs/scenarios.md` say which test shows what. They are made from the names of the tests, so
//! a test that is renamed or removed shows here; `UPDATE_DOCS=1 cargo test -p nacp-cli --test promises` writes them anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Every promise of the protocol, in order, with what it says in short.
const PROMISES: &str = include_str!("../../../docs/promises.index");
/// Every failure scenario that users of comparable systems reported, likewise.
const SCENARIOS: &str = include_str!("../../../docs/scenarios.index");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the workspace is here")
}

/// A test of the workspace.
struct Test {
    path: String,
    name: String,
    /// Whether it can speak over sockets of the system: its file names some, and its clock is the real one.
    has_sockets: bool,
}

/// Every Rust file below `crates`: its path in the workspace, and its text.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)
            .expect("readable")
            .map(|entry| entry.expect("readable").path())
        {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&entry).expect("readable");
                let path = entry.strip_prefix(root()).expect("below the root");
                found.push((path.display().to_string(), text));
            }
        }
    }
    found.sort();
    found
}

/// Functions under a `#[test]`-like attribute, also inside macros.
fn tests_in(path: &str, text: &str) -> Vec<Test> {
    const SOCKETS: [&str; 6] = [
        "tcp:",
        "unix:",
        "ws:",
        "127.0.0.1",
        "TcpStream",
        "UnixListener",
    ];
    let mut tests: Vec<Test> = Vec::new();
    let mut attributed = false;
    let names_sockets = SOCKETS.iter().any(|word| text.contains(word));
    let mut has_sockets = false;
    for line in text.lines() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("#[test]") || trimmed.starts_with("#[tokio::test") {
            attributed = true;
            has_sockets = names_sockets && !trimmed.contains("start_paused");
        } else if let Some(rest) = trimmed
            .strip_prefix("async fn ")
            .or_else(|| trimmed.strip_prefix("fn "))
            && std::mem::take(&mut attributed)
        {
            tests.push(Test {
                path: path.to_owned(),
                name: rest.split(['(', '<']).next().unwrap_or_default().to_owned(),
                has_sockets,
            });
        }
    }
    tests
}

/// The ids that a test's name cites: `link_4b_wait_7_b49_…` → LINK-4, WAIT-7, B49.
fn cited(name: &str) -> Vec<String> {
    const GROUPS: [&str; 8] = ["link", "hb", "msg", "wait", "sub", "cap", "term", "gw"];
    let words: Vec<&str> = name.split('_').collect();
    let mut ids = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let next = words.get(index + 1).copied().unwrap_or_default();
        let digits = next.trim_end_matches(|letter: char| letter.is_ascii_lowercase());
        if GROUPS.contains(word)
            && !digits.is_empty()
            && digits.bytes().all(|byte| byte.is_ascii_digit())
        {
            ids.push(format!("{}-{digits}", word.to_uppercase()));
        } else if let Some(number) = word.strip_prefix('b')
            && number.len() == 2
            && number.bytes().all(|byte| byte.is_ascii_digit())
        {
            ids.push(format!("B{number}"));
        }
    }
    ids
}

const UNIT: &str = "unit";
const SIMULATOR: &str = "simulator";
const MEMORY: &str = "in memory";
const SOCKET: &str = "real socket";

/// Which kind of judge a test is, by where it stands and what it connects over.
fn judge(test: &Test) -> &'static str {
    let crate_name = test.path.split('/').nth(1).unwrap_or_default();
    match crate_name {
        "nacp" => UNIT,
        "nacp-sim" => SIMULATOR,
        "nacp-cli" | "nact-rig" => SOCKET,
        _ if test.has_sockets => SOCKET,
        _ => MEMORY,
    }
}

/// What shows an id.
#[derive(Default)]
struct Shown {
    /// The tests, by their judge.
    tests: BTreeMap<&'static str, Vec<String>>,
    /// Of these, the ones that play a reported failure.
    scenarios: usize,
    /// The simulator's rules that cite it, by their module.
    rules: BTreeMap<String, usize>,
}

fn by_id() -> BTreeMap<String, Shown> {
    let mut table: BTreeMap<String, Shown> = BTreeMap::new();
    for (path, text) in sources() {
        for test in tests_in(&path, &text) {
            let ids = cited(&test.name);
            let is_scenario = ids.iter().any(|id| id.starts_with('B'));
            let place = path.trim_start_matches("crates/").trim_end_matches(".rs");
            let named = format!("`{place}::{}`", test.name);
            for id in ids {
                let shown = table.entry(id).or_default();
                let tests = shown.tests.entry(judge(&test)).or_default();
                if !tests.contains(&named) {
                    tests.push(named.clone());
                    shown.scenarios += usize::from(is_scenario);
                }
            }
        }
        if let Some(module) = path.strip_prefix("crates/nacp-sim/src/") {
            for id in rules(&text) {
                let module = module.trim_end_matches(".rs").to_owned();
                let shown = table.entry(id).or_default();
                *shown.rules.entry(module).or_default() += 1;
            }
        }
    }
    table
}

/// The promises that the simulator's judge names where one is broken: `"LINK-11"`, a string of its own.
fn rules(text: &str) -> Vec<String> {
    let promises: Vec<String> = index(PROMISES).into_iter().map(|entry| entry.0).collect();
    let strings = text.split('"').skip(1).step_by(2);
    strings
        .filter(|string| promises.iter().any(|id| id == string))
        .map(str::to_owned)
        .collect()
}

/// `(id, what it says, the reason why no test is named)`.
fn index(text: &str) -> Vec<(String, String, Option<String>)> {
    let lines = text
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let mut parts = line.split('|').map(|part| part.trim().to_owned());
            let id = parts.next().expect("an id");
            (id, parts.next().expect("what it says"), parts.next())
        })
        .collect()
}

/// Which judges cover which promise: how many tests of each, and how many rules of the simulator.
fn overview(entries: &[(String, String, Option<String>)]) -> String {
    let table = by_id();
    let mut page = String::from(
        "\n| id | unit | scenario | simulator | in memory | real socket |\n|---|---|---|---|---|---|\n",
    );
    for (id, ..) in entries {
        let shown = table.get(id);
        let count = |judge: &str| {
            shown
                .and_then(|shown| shown.tests.get(judge))
                .map_or(0, Vec::len)
        };
        let rules: usize = shown.map_or(0, |shown| shown.rules.values().sum());
        let scenarios = shown.map_or(0, |shown| shown.scenarios);
        let cells = [
            count(UNIT),
            scenarios,
            rules + count(SIMULATOR),
            count(MEMORY),
            count(SOCKET),
        ];
        let cells = cells.map(|count| match count {
            0 => "·".to_owned(),
            count => count.to_string(),
        });
        writeln!(page, "| {id} | {} |", cells.join(" | ")).expect("text");
    }
    page
}

fn page(
    title: &str,
    intro: &str,
    overview: &str,
    entries: &[(String, String, Option<String>)],
) -> String {
    let table = by_id();
    let mut page = format!("# {title}\n\n{intro}\n{overview}");
    for (id, says, reason) in entries {
        write!(page, "\n## {id}\n{says}\n").expect("text");
        let nothing = Shown::default();
        let shown = table.get(id).unwrap_or(&nothing);
        for (judge, tests) in &shown.tests {
            writeln!(page, "- {judge}: {}", tests.join(", ")).expect("text");
        }
        let modules: Vec<_> = shown
            .rules
            .iter()
            .map(|(module, count)| match count {
                1 => format!("a rule of `{module}`"),
                count => format!("{count} rules of `{module}`"),
            })
            .collect();
        if !modules.is_empty() {
            writeln!(
                page,
                "- simulator, after every operation: {}",
                modules.join(", ")
            )
            .expect("text");
        }
        if let Some(reason) = reason {
            writeln!(page, "- note: {reason}").expect("text");
        }
    }
    page
}

fn check(file: &str, page: &str) {
    let path = root().join("docs").join(file);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, page).expect("writable");
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/{file} is out of date: UPDATE_DOCS=1 cargo test -p nacp-cli --test promises"
    );
}

fn assert_all_shown(entries: &[(String, String, Option<String>)]) {
    let table = by_id();
    let open: Vec<_> = entries
        .iter()
        .filter(|(id, _, reason)| {
            // A rule of the simulator shows nothing that a reader can run by name.
            let shown = table.get(id).is_some_and(|shown| !shown.tests.is_empty());
            reason.is_none() && !shown
        })
        .map(|entry| &entry.0)
        .collect();
    assert!(open.is_empty(), "no test shows {open:?}");
    let known: Vec<_> = [index(PROMISES), index(SCENARIOS)]
        .concat()
        .into_iter()
        .map(|entry| entry.0)
        .collect();
    let unknown: Vec<_> = table.keys().filter(|id| !known.contains(id)).collect();
    assert!(
        unknown.is_empty(),
        "tests cite ids that do not exist: {unknown:?}"
    );
}

#[test]
fn every_promise_is_shown_by_a_test_or_says_why_not() {
    let entries = index(PROMISES);
    assert_eq!(entries.len(), 61, "no promise is left out");
    assert_all_shown(&entries);
    let intro = "What NACP promises, and who shows it. The judges: *unit* = the protocol core against a scripted peer \
                 with a virtual clock; *scenario* = those tests of any judge that play a failure of \
                 [scenarios.md](scenarios.md); *simulator* = many cores in a seeded world of faults: the rules of its \
                 reference model that name the promise, after every operation; *in memory* = Apps over in-memory \
                 connections; *real socket* = Apps, transports and the `nacp` command over sockets of the system. The \
                 numbers count tests, and rules. A promise without a rule of its own is judged in the simulator where \
                 another one depends on it. This page is made from the names and places of the tests.";
    let overview = overview(&entries);
    check("promises.md", &page("Promises", intro, &overview, &entries));
}

#[test]
fn every_scenario_is_shown_by_a_test_or_says_why_not() {
    let entries = index(SCENARIOS);
    assert_eq!(entries.len(), 40, "no scenario is left out");
    assert_all_shown(&entries);
    let intro = "Failures that users of comparable systems really had, and the tests that show that they do not happen \
                 here. The judges are those of [promises.md](promises.md).";
    check("scenarios.md", &page("Scenarios", intro, "", &entries));
}
