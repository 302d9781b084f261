//! The settings that say who may come in, and how we prove who we are.

use super::setting::{Group, Setting, of};
use super::slot::{Cell, Slot};
use super::who::Who;

const fn security(
    who: Who,
    name: &'static str,
    slot: Slot,
    what: &'static str,
    then: &'static str,
) -> Setting {
    of(Group::Security, who, name, slot, what, then)
}

/// They come last, for `[identities]` is a table, and a table ends only with its file.
pub static SETTINGS: &[Setting] = &[
    security(
        Who::LISTENER,
        "tls_cert",
        Slot::File(|plan| &mut plan.credentials.cert),
        "Certificate to listen with at tls, wss and https: PEM, the own one first, then those between it and the root",
        "Read again at SIGHUP, with its key: new connections get the new one, links live on.",
    ),
    security(
        Who::LISTENER,
        "tls_key",
        Slot::File(|plan| &mut plan.credentials.key),
        "Its private key: PEM, not encrypted",
        "Read again at SIGHUP, with its certificate.",
    ),
    security(
        Who::LISTENER,
        "tls_client_roots",
        Slot::File(|plan| &mut plan.credentials.client_roots),
        "Authorities, PEM: only clients with a certificate of one of them come in at tls, wss and https (mutual TLS)",
        "Others are refused in the handshake. The names in the certificate are the client's identity.",
    ),
    security(
        Who::EVERYBODY,
        "tls_roots",
        Slot::File(|plan| &mut plan.credentials.roots),
        "Authorities, PEM: servers of these are trusted, and no others",
        "Without it: Mozilla's, as they were when this program was built.",
    ),
    security(
        Who::EVERYBODY,
        "tls_client_cert",
        Slot::File(|plan| &mut plan.credentials.client_cert),
        "Certificate to show to servers that ask for one (mutual TLS): PEM",
        "Needs --tls-client-key.",
    ),
    security(
        Who::EVERYBODY,
        "tls_client_key",
        Slot::File(|plan| &mut plan.credentials.client_key),
        "Its private key: PEM, not encrypted",
        "Needs --tls-client-cert.",
    ),
    security(
        Who::EVERYBODY,
        "bearer_token_file",
        Slot::File(|plan| &mut plan.credentials.token_file),
        "A file with the token to show to ws, wss, http and https servers; white space around it does not count",
        "NACP_BEARER_TOKEN gives the token itself. Over ws and http whoever is on the way can read it.",
    ),
    security(
        Who::EVERYBODY,
        "bearer_token",
        Slot::Secret(|plan| &mut plan.credentials.token),
        "The token itself",
        "Only as a variable: everybody on a machine can read the command lines of its programs.",
    ),
    security(
        Who::LISTENER,
        "bearer_tokens_file",
        Slot::File(|plan| &mut plan.credentials.tokens),
        "A file of lines NAME TOKEN: only requests with one of these tokens are served at ws, wss, http and https",
        "Others are answered 401 or 403. NAME is the client's identity. Read again at SIGHUP; connections that stand \
         stay. Lines that begin with # do not count.",
    ),
    security(
        Who::LISTENER,
        "only_identities",
        Slot::Switch(|plan| &mut plan.only_identities),
        "Whether only those may register whose identity is listed in identities",
        "Others are refused, identity-not-listed. If not, they may take any App ID that is listed for nobody.",
    ),
    security(
        Who::LISTENER,
        "refusals_max",
        Slot::Count(0, |plan| Cell::U32(&mut plan.refusals_max)),
        "Registers of one identity, else of one address, that were refused; one is forgotten each second; 0: no limit",
        "Further ones are refused without a look, refused-too-often. Behind a proxy all come from one address.",
    ),
    security(
        Who::LISTENER,
        "identities",
        Slot::Identities(|plan| &mut plan.identities),
        "Which App IDs an identity may take: the name in a client's certificate, or the NAME of its token",
        "A listed App ID is had with its identity only: others are refused, identity-not-allowed. May be given more than \
         once; in a file it is a table, [identities] with lines NAME = [\"APP\", …].",
    ),
];
