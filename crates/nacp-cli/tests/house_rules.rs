//! The rules of the house, checked: what a newcomer can rely on when he opens any file of the workspace.

use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::Visit;

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the workspace is here")
}

/// Every Rust file below `folder` of the workspace that is ours.
fn sources(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.map(|entry| entry.expect("readable").path()) {
            let name = entry
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default()
                .to_owned();
            if entry.is_dir() && name != "target" && name != "node_modules" {
                folders.push(entry);
            } else if name.ends_with(".rs") {
                let text = fs::read_to_string(&entry).expect("readable");
                let path = entry
                    .strip_prefix(root())
                    .expect("below the root")
                    .display()
                    .to_string();
                found.push((path, text));
            }
        }
    }
    found.sort();
    found
}

fn everything() -> Vec<(String, String)> {
    ["crates", "bench", "fuzz", "interop"]
        .into_iter()
        .flat_map(sources)
        .collect()
}

fn assert_none(what: &str, offenders: &[String]) {
    assert!(
        offenders.is_empty(),
        "{what}:\n  {}",
        offenders.join("\n  ")
    );
}

#[test]
fn no_file_has_more_than_600_lines() {
    let files = everything();
    assert!(files.len() > 50, "the sources were found");
    let long = |(path, text): &(String, String)| {
        let lines = text.lines().count();
        (lines > FILE_LINES_MAX).then(|| format!("{path}: {lines} lines"))
    };
    assert_none(
        "files over 600 lines",
        &files.iter().filter_map(long).collect::<Vec<_>>(),
    );
}

#[derive(Default)]
struct LongFunctions {
    found: Vec<String>,
}

impl LongFunctions {
    fn look_at(&mut self, name: &syn::Ident, whole: proc_macro2::Span) {
        let lines = whole.end().line - name.span().start().line + 1;
        if lines > FUNCTION_LINES_MAX {
            self.found.push(format!(
                "{name} ({lines} lines, line {})",
                whole.start().line
            ));
        }
    }
}

impl<'ast> Visit<'ast> for LongFunctions {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.look_at(&function.sig.ident, function.span());
        syn::visit::visit_item_fn(self, function);
    }
    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.look_at(&function.sig.ident, function.span());
        syn::visit::visit_impl_item_fn(self, function);
    }
    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        self.look_at(&function.sig.ident, function.span());
        syn::visit::visit_trait_item_fn(self, function);
    }
}

#[test]
fn no_function_has_more_than_70_lines() {
    let mut long = Vec::new();
    for (path, text) in everything() {
        let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut functions = LongFunctions::default();
        functions.visit_file(&file);
        long.extend(
            functions
                .found
                .into_iter()
                .map(|function| format!("{path}: {function}")),
        );
    }
    assert_none("functions over 70 lines", &long);
}

/// All identifiers of a file, with `a::b` joined to one more entry.
fn words(tokens: TokenStream, into: &mut Vec<String>) {
    let mut before: Option<String> = None;
    let mut colons = 0;
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                let ident = ident.to_string();
                if let Some(before) = before.filter(|_| colons == 2) {
                    into.push(format!("{before}::{ident}"));
                }
                into.push(ident.clone());
                (before, colons) = (Some(ident), 0);
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
            TokenTree::Group(group) => {
                words(group.stream(), into);
                (before, colons) = (None, 0);
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => (before, colons) = (None, 0),
        }
    }
}

#[test]
fn the_protocol_has_no_io_clock_task_lock_async_or_unsafe() {
    const BANNED: [&str; 16] = [
        "async",
        "await",
        "unsafe",
        "tokio",
        "Mutex",
        "RwLock",
        "Condvar",
        "AtomicBool",
        "SystemTime",
        "Instant::now",
        "std::net",
        "std::fs",
        "std::io",
        "std::thread",
        "std::process",
        "thread_local",
    ];
    let mut offenders = Vec::new();
    for (path, text) in sources("crates/nacp/src") {
        let mut found = Vec::new();
        words(
            text.parse()
                .unwrap_or_else(|error| panic!("{path}: {error}")),
            &mut found,
        );
        let banned = found.iter().filter(|word| BANNED.contains(&word.as_str()));
        offenders.extend(banned.map(|word| format!("{path}: {word}")));
    }
    assert_none("what the protocol must not know", &offenders);
}

fn manifest(crate_name: &str) -> toml::Table {
    let path = root().join("crates").join(crate_name).join("Cargo.toml");
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.parse().expect("a manifest")
}

#[test]
fn arrows_point_down() {
    let allowed: [(&str, &[&str]); 6] = [
        ("nacp", &[]),
        ("nact", &[]),
        ("napp", &["nacp", "nact"]),
        ("nact-rig", &["nact"]),
        ("nacp-sim", &["nacp"]),
        (
            "nacp-cli",
            &["nacp", "nact", "napp", "nact-rig", "nacp-sim"],
        ),
    ];
    let ours: Vec<&str> = allowed.iter().map(|(name, _)| *name).collect();
    let mut offenders = Vec::new();
    for (name, below) in allowed {
        if !root().join("crates").join(name).exists() {
            continue;
        }
        let manifest = manifest(name);
        let dependencies = manifest
            .get("dependencies")
            .and_then(|table| table.as_table());
        for dependency in dependencies.into_iter().flat_map(|table| table.keys()) {
            if ours.contains(&dependency.as_str()) && !below.contains(&dependency.as_str()) {
                offenders.push(format!("{name} → {dependency}"));
            }
        }
    }
    assert_none("arrows that point up or sideways", &offenders);
    for entry in fs::read_dir(root().join("crates")).expect("crates") {
        let name = entry.expect("readable").file_name();
        assert!(
            ours.iter().any(|known| name == *known),
            "{name:?} has no place in the picture"
        );
    }
}

#[test]
fn every_crate_takes_the_lints_of_the_house_and_unsafe_is_forbidden() {
    let workspace: toml::Table = fs::read_to_string(root().join("Cargo.toml"))
        .expect("the workspace")
        .parse()
        .expect("a manifest");
    assert_eq!(
        workspace["workspace"]["lints"]["rust"]["unsafe_code"].as_str(),
        Some("forbid")
    );
    for entry in fs::read_dir(root().join("crates")).expect("crates") {
        let name = entry.expect("readable").file_name();
        let manifest = manifest(&name.to_string_lossy());
        assert_eq!(
            manifest["lints"]["workspace"].as_bool(),
            Some(true),
            "{name:?}"
        );
    }
}

#[test]
fn every_file_opens_with_what_it_keeps_true() {
    let silent = |(path, text): &(String, String)| (!text.starts_with("//!")).then(|| path.clone());
    assert_none(
        "files without a //! at the top",
        &everything().iter().filter_map(silent).collect::<Vec<_>>(),
    );
}

#[test]
fn no_module_is_named_for_nothing() {
    let vague = |(path, _): &(String, String)| {
        let stem = Path::new(path).file_stem()?.to_str()?.to_owned();
        let folder = Path::new(path).parent()?.file_name()?.to_str()?.to_owned();
        const VAGUE: [&str; 8] = [
            "util", "utils", "common", "manager", "helper", "helpers", "misc", "shared",
        ];
        (VAGUE.contains(&stem.as_str()) || VAGUE.contains(&folder.as_str())).then(|| path.clone())
    };
    assert_none(
        "modules named for nothing",
        &everything().iter().filter_map(vague).collect::<Vec<_>>(),
    );
}

#[test]
fn nothing_sleeps_on_a_thread() {
    let mut offenders = Vec::new();
    for (path, text) in sources("crates") {
        let mut found = Vec::new();
        words(text.parse().expect("parsed above"), &mut found);
        if found.iter().any(|word| word == "thread::sleep") {
            offenders.push(path);
        }
    }
    assert_none("files with thread::sleep", &offenders);
}
