//! Transport.
