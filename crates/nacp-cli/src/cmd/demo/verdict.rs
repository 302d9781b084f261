//! What came of the job, compared with what was computed here.
//!
//! What this module keeps true: a chunk counts as right only with the path, the size and the hash of a file here; every
//! way for the stream to be wrong has a number of its own.

use std::collections::HashMap;
use std::path::Path;

use serde::Serialize;

use crate::handlers::Totals;
use crate::tree_hash::{Entry, Walk};

/// How the delivered chunks compare.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Files here.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Chunks that the worker sent.
    pub sent: usize,
    /// Chunks that the client got.
    pub delivered: usize,
    /// Entries of which no chunk came.
    pub lost: usize,
    /// Chunks beyond the first of an entry.
    pub doubled: usize,
    /// Chunks of no entry here, or with another hash.
    pub wrong: usize,
    /// Chunks that came after a later one.
    pub out_of_order: usize,
    /// Whether the response has the right totals.
    pub is_response_right: bool,
}

/// Adds up what stands here.
pub fn totals(entries: &[Entry]) -> Totals {
    let mut totals = Totals::default();
    entries.iter().for_each(|entry| totals.add(entry));
    totals
}

/// Hashes the directory here.
///
/// # Errors
/// It cannot be read.
pub fn expected(dir: &Path, skip: &[String]) -> Result<Vec<Entry>, String> {
    Walk::new(dir, skip).map(Iterator::collect)
}

/// Compares. `expected` is what stood here before the job; `after` hashes again, for a file that somebody changed
/// while the job ran.
pub fn judge(
    expected: &[Entry],
    delivered: &[Entry],
    sent: usize,
    answer: Totals,
    after: impl FnOnce() -> Vec<Entry>,
) -> Verdict {
    let verdict = compare(expected, delivered, sent, answer);
    if verdict.wrong == 0 && verdict.lost == 0 && verdict.is_response_right {
        return verdict;
    }
    // What changed is as right with its new content as with its old.
    let after = after();
    let now: HashMap<_, _> = after.iter().map(|entry| (&entry.path, entry)).collect();
    let got: HashMap<_, _> = delivered.iter().map(|entry| (&entry.path, entry)).collect();
    let merged: Vec<Entry> = expected
        .iter()
        .filter_map(|entry| match (got.get(&entry.path), now.get(&entry.path)) {
            (Some(got), Some(now)) if got == now => Some((*now).clone()),
            (None, None) => None,
            _ => Some(entry.clone()),
        })
        .collect();
    compare(&merged, delivered, sent, answer)
}

fn compare(expected: &[Entry], delivered: &[Entry], sent: usize, answer: Totals) -> Verdict {
    let places: HashMap<_, _> = expected
        .iter()
        .enumerate()
        .map(|(place, entry)| (entry.path.as_str(), place))
        .collect();
    let totals = totals(expected);
    let mut verdict = Verdict {
        files: totals.files,
        bytes: totals.bytes,
        sent,
        delivered: delivered.len(),
        is_response_right: totals == answer,
        ..Verdict::default()
    };
    let mut seen = vec![false; expected.len()];
    let mut furthest = 0;
    for chunk in delivered {
        let Some(&place) = places.get(chunk.path.as_str()) else {
            verdict.wrong += 1;
            continue;
        };
        // The words of an error are the system's; that there is one is ours.
        let right = &expected[place];
        let is_right = right.sha256 == chunk.sha256
            && right.bytes == chunk.bytes
            && right.error.is_some() == chunk.error.is_some();
        verdict.wrong += usize::from(!is_right);
        verdict.doubled += usize::from(std::mem::replace(&mut seen[place], true));
        verdict.out_of_order += usize::from(place < furthest);
        furthest = furthest.max(place);
    }
    verdict.lost = seen.iter().filter(|seen| !**seen).count();
    verdict
}

impl Verdict {
    /// Whether the job went as promised. Where chunks may be lost (`is_lossy`) only the response is.
    pub fn is_success(&self, is_lossy: bool) -> bool {
        let is_stream_right = self.lost == 0 && self.doubled == 0 && self.out_of_order == 0;
        self.wrong == 0 && self.is_response_right && (is_lossy || is_stream_right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, hash: &str) -> Entry {
        Entry {
            path: path.into(),
            bytes: 1,
            sha256: Some(hash.into()),
            error: None,
        }
    }

    #[test]
    fn every_way_to_be_wrong_is_counted() {
        let here = ["a", "b", "c", "d"].map(|path| entry(path, path));
        let (answer, none) = (totals(&here), Vec::new);
        let right = judge(&here, &here, 4, answer, none);
        assert!(right.is_success(false));
        assert_eq!((right.files, right.bytes, right.delivered), (4, 4, 4));

        let came = [
            entry("b", "b"),
            entry("a", "a"),
            entry("a", "a"),
            entry("c", "x"),
            entry("z", "z"),
        ];
        let bad = judge(&here, &came, 4, answer, || here.to_vec());
        assert_eq!(
            (bad.lost, bad.doubled, bad.wrong, bad.out_of_order),
            (1, 1, 2, 2)
        );
        assert!(!bad.is_success(true));

        let lossy = judge(&here, &here[1..], 4, answer, || here.to_vec());
        assert!(lossy.is_success(true) && !lossy.is_success(false));
        let short = judge(&here, &here, 4, Totals::default(), || here.to_vec());
        assert!(!short.is_success(true));
    }

    #[test]
    fn a_file_that_changed_meanwhile_is_right_with_its_new_content() {
        let before = ["a", "b"].map(|path| entry(path, path));
        let after = [entry("a", "a"), entry("b", "new")];
        let verdict = judge(&before, &after, 2, totals(&after), || after.to_vec());
        assert!(verdict.is_success(false));
    }
}
