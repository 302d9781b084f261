//! Who the other end of a channel is, where a transport can tell.

/// What the remote proved to be: the names of its verified certificate, or what the authorisation hook made of its
/// request. This crate only carries it; an upper layer decides what an identity may do.
///
/// ```
/// let identity = nact::Identity::new("reports");
/// assert!(identity.has_name("reports") && !identity.has_name("billing"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// The common name (CN) of the certificate's subject, or the name that the hook gave.
    pub common_name: Option<String>,
    /// The DNS names among the certificate's alternative names (SAN).
    pub dns_names: Vec<String>,
}

impl Identity {
    /// An identity with this common name and nothing else.
    pub fn new(common_name: impl Into<String>) -> Self {
        Self {
            common_name: Some(common_name.into()),
            dns_names: Vec::new(),
        }
    }

    /// True if the name is the common name or one of the DNS names, letter for letter.
    pub fn has_name(&self, name: &str) -> bool {
        self.common_name.as_deref() == Some(name) || self.dns_names.iter().any(|own| own == name)
    }
}
