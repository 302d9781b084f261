//! How a promise that was not kept is told: by its id, and in a sentence.

use std::fmt;

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which promise.
    pub rule: &'static str,
    /// What happened instead.
    pub what: String,
}

/// What a step of the world comes to.
pub(crate) type Verdict = Result<(), Broken>;

impl Broken {
    pub(crate) fn new(rule: &'static str, what: impl Into<String>) -> Self {
        Self {
            rule,
            what: what.into(),
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

macro_rules! ensure {
    ($holds:expr, $rule:literal, $($what:tt)*) => {
        if !$holds {
            return Err($crate::broken::Broken::new($rule, format!($($what)*)));
        }
    };
}
pub(crate) use ensure;
