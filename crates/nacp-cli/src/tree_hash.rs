//! Walking a directory and hashing its files: the work that `tree-hash` does, and that `demo` checks it against.
//!
//! What this module keeps true: the order is the same on every walk of the same tree (each directory sorted by name,
//! files where they stand in it); symbolic links are not followed, so a walk ends; what cannot be read is an entry with
//! the reason, not the end of the walk. Everything here blocks, and is called from threads that may.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Directories that are not walked unless asked for: their content is made, large, and changes meanwhile.
pub const SKIPPED_BY_DEFAULT: [&str; 2] = [".git", "target"];

/// One file, hashed; or what stood in the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Relative to the directory, with `/` between its parts.
    pub path: String,
    /// The file's size.
    #[serde(default)]
    pub bytes: u64,
    /// In hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Why there is no hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The entries of a tree, one after another.
#[derive(Debug)]
pub struct Walk {
    root: PathBuf,
    skip: Vec<String>,
    /// What is still to be visited, the next at the end.
    stack: Vec<Step>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
enum Step {
    Directory(PathBuf),
    File(PathBuf),
    Unreadable(PathBuf, io::Error),
}

impl Walk {
    /// Opens the directory. Entries named as in `skip` are passed over, wherever they stand.
    ///
    /// # Errors
    /// The directory cannot be read, in words for people.
    pub fn new(root: &Path, skip: &[String]) -> Result<Self, String> {
        let mut walk = Self {
            root: root.to_owned(),
            skip: skip.to_vec(),
            stack: Vec::new(),
            buffer: vec![0; 64 * 1024],
        };
        walk.push_directory(Path::new(""))
            .map_err(|error| format!("cannot read the directory {}: {error}", root.display()))?;
        Ok(walk)
    }

    fn push_directory(&mut self, relative: &Path) -> io::Result<()> {
        let mut steps = Vec::new();
        for entry in fs::read_dir(self.root.join(relative))? {
            let entry = entry?;
            let name = entry.file_name();
            if self.skip.iter().any(|skip| name == skip.as_str()) {
                continue;
            }
            let path = relative.join(name);
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => steps.push(Step::Directory(path)),
                Ok(kind) if kind.is_file() => steps.push(Step::File(path)),
                // A link, a socket, a device: reading one may never end.
                Ok(_) => {}
                Err(error) => steps.push(Step::Unreadable(path, error)),
            }
        }
        steps.sort_by(|a, b| b.path().as_os_str().cmp(a.path().as_os_str()));
        self.stack.append(&mut steps);
        Ok(())
    }

    fn hash(&mut self, relative: &Path) -> io::Result<(u64, String)> {
        let mut file = File::open(self.root.join(relative))?;
        let (mut hasher, mut bytes) = (Sha256::new(), 0);
        loop {
            match file.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(count) => {
                    hasher.update(&self.buffer[..count]);
                    bytes += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let hash = hasher.finalize();
        Ok((
            bytes,
            hash.iter().map(|byte| format!("{byte:02x}")).collect(),
        ))
    }
}

impl Iterator for Walk {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            return Some(match self.stack.pop()? {
                Step::Directory(path) => match self.push_directory(&path) {
                    Ok(()) => continue,
                    Err(error) => unreadable(&path, &error),
                },
                Step::File(path) => match self.hash(&path) {
                    Ok((bytes, sha256)) => Entry {
                        path: text_of(&path),
                        bytes,
                        sha256: Some(sha256),
                        error: None,
                    },
                    Err(error) => unreadable(&path, &error),
                },
                Step::Unreadable(path, error) => unreadable(&path, &error),
            });
        }
    }
}

impl Step {
    fn path(&self) -> &Path {
        match self {
            Self::Directory(path) | Self::File(path) | Self::Unreadable(path, _) => path,
        }
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Entry {
    Entry {
        path: text_of(path),
        bytes: 0,
        sha256: None,
        error: Some(error.to_string()),
    }
}

/// Distinct paths give distinct texts, also where names are not UTF-8.
fn text_of(path: &Path) -> String {
    path.components()
        .map(|part| {
            let part = part.as_os_str();
            part.to_str()
                .map_or_else(|| format!("{part:?}"), str::to_owned)
        })
        .collect::<Vec<_>>()
        .join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(root: &Path) -> Vec<Entry> {
        Walk::new(root, &["skipped".to_owned()]).unwrap().collect()
    }

    #[test]
    fn the_order_is_stable_and_the_hashes_are_right() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("b/skipped")).unwrap();
        for (path, content) in [("c", "abc"), ("b/z", ""), ("b/skipped/x", "x"), ("a", "x")] {
            fs::write(root.path().join(path), content).unwrap();
        }
        let entries = walk(root.path());
        let paths: Vec<_> = entries.iter().map(|entry| entry.path.as_str()).collect();
        assert_eq!(paths, ["a", "b/z", "c"]);
        assert_eq!(
            entries[2].sha256.as_deref(),
            Some("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        );
        assert_eq!(entries[2].bytes, 3);
        assert_eq!(walk(root.path()), entries);
    }

    #[test]
    fn what_cannot_be_read_has_a_reason() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        fs::write(&file, "x").unwrap();
        let error = |path: &Path| Walk::new(path, &[]).unwrap_err();
        assert!(error(&root.path().join("none")).starts_with("cannot read the directory"));
        assert!(error(&file).contains("file"));
        // A file that is gone between the listing and the reading.
        let mut walk = Walk::new(root.path(), &[]).unwrap();
        fs::remove_file(&file).unwrap();
        assert!(walk.next().unwrap().error.is_some());
        assert!(walk.next().is_none());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed_and_odd_names_stay_apart() {
        use std::os::unix::ffi::OsStrExt as _;
        let root = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(".", root.path().join("loop")).unwrap();
        for name in [&b"\xff"[..], b"\xfe"] {
            fs::write(root.path().join(std::ffi::OsStr::from_bytes(name)), "").unwrap();
        }
        let entries = walk(root.path());
        assert_eq!(entries.len(), 2);
        assert_ne!(entries[0].path, entries[1].path);
    }
}
