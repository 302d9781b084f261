//! Deliberate faults in the core, kept as text: where, what stands there, what shall stand there instead. What this
//! module keeps true: a mutant applies in exactly one way or not at all, so one that went stale is noticed.
//!
//! ```text
//! What is wrong with it, in a sentence.
//! in crates/nacp/src/some.rs
//! <<<<
//! what stands there, exactly once
//! ====
//! what shall stand there
//! >>>>
//! ```

use std::fmt;
use std::str::FromStr;

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// What is wrong.
    pub title: String,
    edits: Vec<Edit>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Edit {
    file: String,
    from: String,
    to: String,
}

/// A text that is no mutant, or one that does not apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadMutant(pub String);

impl fmt::Display for BadMutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadMutant {}

impl FromStr for Mutant {
    type Err = BadMutant;
    fn from_str(text: &str) -> Result<Self, BadMutant> {
        let bad = |what: &str| BadMutant(format!("{what} is missing"));
        let (title, mut rest) = text.split_once('\n').ok_or_else(|| bad("a title"))?;
        let mut edits = Vec::new();
        while !rest.trim().is_empty() {
            let line = rest.strip_prefix("in ").ok_or_else(|| bad("the file"))?;
            let (file, body) = line
                .split_once("\n<<<<\n")
                .ok_or_else(|| bad("what stands there"))?;
            let (from, body) = body
                .split_once("====\n")
                .ok_or_else(|| bad("what shall stand there"))?;
            let (to, after) = body.split_once(">>>>\n").ok_or_else(|| bad("the end"))?;
            edits.push(Edit {
                file: file.to_owned(),
                from: from.strip_suffix('\n').unwrap_or(from).to_owned(),
                to: to.strip_suffix('\n').unwrap_or(to).to_owned(),
            });
            rest = after;
        }
        if edits.is_empty() {
            return Err(bad("an edit"));
        }
        Ok(Self {
            title: title.to_owned(),
            edits,
        })
    }
}

impl Mutant {
    /// The changed files and their new texts; `read` gives the text of a file of the workspace.
    ///
    /// # Errors
    /// What it looks for is not there, or more than once.
    pub fn apply(
        &self,
        read: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Vec<(String, String)>, BadMutant> {
        let mut files: Vec<(String, String)> = Vec::new();
        for edit in &self.edits {
            let changed = files.iter().position(|(file, _)| *file == edit.file);
            let text = match changed {
                Some(index) => files.swap_remove(index).1,
                None => read(&edit.file)
                    .ok_or_else(|| BadMutant(format!("there is no {}", edit.file)))?,
            };
            let count = text.matches(&edit.from).count();
            if count != 1 {
                let what = format!("stands {count} times in {}: {}", edit.file, edit.from);
                return Err(BadMutant(what));
            }
            files.push((edit.file.clone(), text.replacen(&edit.from, &edit.to, 1)));
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutant_applies_once_or_not_at_all() {
        let text =
            "Wrong.\nin a.rs\n<<<<\none\n====\ntwo\n>>>>\nin a.rs\n<<<<\ntwo!\n====\n\n>>>>\n";
        let mutant: Mutant = text.parse().unwrap();
        let with = |text: &'static str| mutant.apply(&move |_| Some(text.to_owned()));
        assert_eq!(with("x one! y").unwrap(), [("a.rs".into(), "x  y".into())]);
        assert!(with("one! one!").is_err() && with("none at all").is_err());
        assert!("Wrong.\n".parse::<Mutant>().is_err());
    }
}
