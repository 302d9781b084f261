//! App runtime.
