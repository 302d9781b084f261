//! Event bus names: `:`-separated segments, where `*` in a pattern matches exactly one (SUB-1). The tree finds all
//! patterns that match a name in the number of nodes on the way, not in the number of patterns.

use std::collections::BTreeMap;

/// The longest name or pattern, in bytes.
pub const NAME_BYTES_MAX: usize = 1_024;
/// The most segments of a name or pattern.
pub const SEGMENTS_MAX: usize = 64;

/// Whether `pattern` may be subscribed to: 1 to 1,024 bytes, at most 64 segments.
pub fn is_valid_pattern(pattern: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&pattern.len()) && pattern.split(':').count() <= SEGMENTS_MAX
}

/// Whether `pattern` matches `name`.
///
/// ```
/// use nacp::pattern::matches;
/// assert!(matches("task:*", "task:done"));
/// assert!(!matches("task:*", "task:done:late"));
/// ```
pub fn matches(pattern: &str, name: &str) -> bool {
    let mut segments = name.split(':');
    pattern.split(':').all(|wanted| {
        segments
            .next()
            .is_some_and(|got| wanted == "*" || wanted == got)
    }) && segments.next().is_none()
}

/// Values filed under patterns, found by name.
///
/// ```
/// use nacp::pattern::Patterns;
/// let mut patterns = Patterns::default();
/// patterns.insert("task:*", 1);
/// patterns.insert("task:done", 2);
/// let mut found = Vec::new();
/// patterns.for_each_match("task:done", &mut |value| found.push(*value));
/// assert_eq!(found, [2, 1]);
/// ```
#[derive(Clone, Debug)]
pub struct Patterns<T> {
    root: Node<T>,
    len: usize,
}

#[derive(Clone, Debug)]
struct Node<T> {
    children: BTreeMap<Box<str>, Node<T>>,
    any: Option<Box<Node<T>>>,
    here: Vec<T>,
}

impl<T> Default for Node<T> {
    fn default() -> Self {
        Self {
            children: BTreeMap::new(),
            any: None,
            here: Vec::new(),
        }
    }
}

impl<T> Default for Patterns<T> {
    fn default() -> Self {
        Self {
            root: Node::default(),
            len: 0,
        }
    }
}

impl<T: PartialEq> Patterns<T> {
    /// Files `value` under `pattern`, which [`is_valid_pattern`] must have accepted.
    pub fn insert(&mut self, pattern: &str, value: T) {
        let mut node = &mut self.root;
        for segment in pattern.split(':') {
            node = match segment {
                "*" => node.any.get_or_insert_default(),
                _ => node.children.entry(segment.into()).or_default(),
            };
        }
        node.here.push(value);
        self.len += 1;
    }

    /// Takes `value` from `pattern`; false if it was not there. Nodes that are no longer needed go too.
    pub fn remove(&mut self, pattern: &str, value: &T) -> bool {
        let removed = self.root.remove(pattern.split(':'), value);
        self.len -= usize::from(removed);
        removed
    }

    /// Calls `hit` with each value whose pattern matches `name`: per segment the literal before the `*`, under one
    /// pattern in order of insertion.
    pub fn for_each_match<'a>(&'a self, name: &str, hit: &mut impl FnMut(&'a T)) {
        if self.len > 0 {
            self.root.for_each_match(name.split(':'), hit);
        }
    }

    /// How many values are filed.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

// Recursion is as deep as the longest pattern: SEGMENTS_MAX.
impl<T: PartialEq> Node<T> {
    fn remove<'a>(&mut self, mut segments: impl Iterator<Item = &'a str>, value: &T) -> bool {
        let Some(segment) = segments.next() else {
            let found = self.here.iter().position(|candidate| candidate == value);
            return found.map(|index| self.here.remove(index)).is_some();
        };
        let child = match segment {
            "*" => self.any.as_deref_mut(),
            _ => self.children.get_mut(segment),
        };
        let Some(child) = child else { return false };
        let removed = child.remove(&mut segments as &mut dyn Iterator<Item = &'a str>, value);
        if removed && child.here.is_empty() && child.children.is_empty() && child.any.is_none() {
            match segment {
                "*" => self.any = None,
                _ => drop(self.children.remove(segment)),
            }
        }
        removed
    }

    fn for_each_match<'a, 'n>(
        &'a self,
        mut segments: std::str::Split<'n, char>,
        hit: &mut impl FnMut(&'a T),
    ) {
        let Some(segment) = segments.next() else {
            return self.here.iter().for_each(hit);
        };
        if let Some(child) = self.children.get(segment) {
            child.for_each_match(segments.clone(), hit);
        }
        if let Some(child) = &self.any {
            child.for_each_match(segments, hit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sub_1_the_tree_finds_what_matching_one_by_one_finds(
            patterns in prop::collection::vec("[ab*](:[ab*]){0,3}", 0..20),
            name in "[ab](:[ab]){0,3}",
        ) {
            let mut tree = Patterns::default();
            for (index, pattern) in patterns.iter().enumerate() {
                tree.insert(pattern, index);
            }
            let mut found = Vec::new();
            tree.for_each_match(&name, &mut |index| found.push(*index));
            found.sort_unstable();
            let expected: Vec<_> =
                (0..patterns.len()).filter(|&index| matches(&patterns[index], &name)).collect();
            prop_assert_eq!(found, expected);
            for (index, pattern) in patterns.iter().enumerate() {
                prop_assert!(tree.remove(pattern, &index));
                prop_assert!(!tree.remove(pattern, &index));
            }
            prop_assert!(tree.is_empty() && tree.root.children.is_empty() && tree.root.any.is_none());
        }
    }

    #[test]
    fn sub_1_a_pattern_has_at_most_64_segments_and_1024_bytes() {
        assert!(is_valid_pattern("a") && is_valid_pattern(&"*:".repeat(63)));
        assert!(
            !is_valid_pattern("")
                && !is_valid_pattern(&":".repeat(64))
                && !is_valid_pattern(&"a".repeat(1_025))
        );
    }
}
