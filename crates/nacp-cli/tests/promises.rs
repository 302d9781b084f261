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

/// The tests of the workspace: `(file, name)`.
fn tests() -> Vec<(String, String)> {
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
                let path = entry
                    .strip_prefix(root())
                    .expect("below the root")
                    .display()
                    .to_string();
                found.extend(
                    test_names(&text)
                        .into_iter()
                        .map(|name| (path.clone(), name)),
                );
            }
        }
    }
    found.sort();
    found
}

/// Functions under a `#[test]`-like attribute, also inside macros.
fn test_names(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut attributed = false;
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            attributed = true;
        } else if let Some(rest) = line
            .strip_prefix("async fn ")
            .or_else(|| line.strip_prefix("fn "))
            && std::mem::take(&mut attributed)
        {
            names.extend(rest.split(['(', '<']).next().map(str::to_owned));
        }
    }
    names
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

/// Which kind of judge a test is, by where it stands.
fn judge(path: &str) -> &'static str {
    if path.starts_with("crates/nacp-sim/") {
        "simulator"
    } else if path.starts_with("crates/nacp/") {
        "scripted"
    } else if path.starts_with("crates/nacp-cli/") {
        "processes"
    } else {
        "runtime"
    }
}

fn by_id() -> BTreeMap<String, BTreeMap<&'static str, Vec<String>>> {
    let mut table: BTreeMap<String, BTreeMap<&'static str, Vec<String>>> = BTreeMap::new();
    for (path, name) in tests() {
        for id in cited(&name) {
            let tests = table
                .entry(id)
                .or_default()
                .entry(judge(&path))
                .or_default();
            let place = path.trim_start_matches("crates/").trim_end_matches(".rs");
            let test = format!("`{place}::{name}`");
            if !tests.contains(&test) {
                tests.push(test);
            }
        }
    }
    table
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

fn page(title: &str, intro: &str, entries: &[(String, String, Option<String>)]) -> String {
    let table = by_id();
    let mut page = format!("# {title}\n\n{intro}\n");
    for (id, says, reason) in entries {
        write!(page, "\n## {id}\n{says}\n").expect("text");
        for (judge, tests) in table.get(id).into_iter().flatten() {
            writeln!(page, "- {judge}: {}", tests.join(", ")).expect("text");
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
        .filter(|(id, _, reason)| reason.is_none() && !table.contains_key(id))
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
    let intro = "What NACP promises, and the tests that show each promise. The judges: *scripted* = the protocol core \
                 against a scripted peer with a virtual clock; *simulator* = many cores in a seeded world of faults, \
                 judged by a reference model; *runtime* = Apps and transports on real or in-memory connections; \
                 *processes* = the `nacp` command itself. This page is made from the names of the tests.";
    check("promises.md", &page("Promises", intro, &entries));
}

#[test]
fn every_scenario_is_shown_by_a_test_or_says_why_not() {
    let entries = index(SCENARIOS);
    assert_eq!(entries.len(), 40, "no scenario is left out");
    assert_all_shown(&entries);
    let intro = "Failures that users of comparable systems really had, and the tests that show that they do not happen \
                 here. The judges are those of [promises.md](promises.md).";
    check("scenarios.md", &page("Scenarios", intro, &entries));
}
