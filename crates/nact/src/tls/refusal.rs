//! Why TLS failed, in short stable texts.

use rustls::{AlertDescription, CertificateError, Error};

/// The reason of an error, local or told by the other side.
pub(crate) fn reason(error: &Error) -> &'static str {
    match error {
        Error::InvalidCertificate(error) => certificate_reason(error),
        Error::NoCertificatesPresented => "client-certificate-missing",
        Error::AlertReceived(alert) => alert_reason(*alert),
        Error::InvalidMessage(_) | Error::InappropriateMessage { .. } => "not-tls",
        Error::PeerIncompatible(_) | Error::NoApplicationProtocol => "tls-incompatible",
        _ => "tls-failed",
    }
}

fn certificate_reason(error: &CertificateError) -> &'static str {
    use CertificateError::{
        Expired, ExpiredContext, InvalidPurpose, InvalidPurposeContext, NotValidForName,
        NotValidForNameContext, NotValidYet, NotValidYetContext, Revoked, UnknownIssuer,
    };
    match error {
        Expired | ExpiredContext { .. } => "certificate-expired",
        NotValidYet | NotValidYetContext { .. } => "certificate-not-yet-valid",
        NotValidForName | NotValidForNameContext { .. } => "certificate-wrong-name",
        UnknownIssuer => "certificate-unknown-issuer",
        InvalidPurpose | InvalidPurposeContext { .. } => "certificate-wrong-purpose",
        Revoked => "certificate-revoked",
        _ => "certificate-invalid",
    }
}

/// What the other side says of us.
fn alert_reason(alert: AlertDescription) -> &'static str {
    match alert {
        AlertDescription::CertificateRequired => "client-certificate-missing",
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnknownCA
        | AlertDescription::AccessDenied => "own-certificate-refused",
        AlertDescription::ProtocolVersion | AlertDescription::NoApplicationProtocol => {
            "tls-incompatible"
        }
        _ => "tls-refused",
    }
}

/// What to do about it, to be put behind the error's own text.
pub(super) fn advice(error: &Error) -> &'static str {
    match reason(error) {
        "certificate-expired" => "; renew the server's certificate, or set this machine's clock",
        "certificate-not-yet-valid" => "; set this machine's clock",
        "certificate-wrong-name" => "; dial a name that the certificate has",
        "certificate-unknown-issuer" => {
            "; if the server's authority is your own, give it to TlsConfig::with_roots_pem"
        }
        "client-certificate-missing" => {
            "; the server wants one: TlsConfig::with_client_certificate"
        }
        "own-certificate-refused" => "; the server does not accept the certificate shown to it",
        "not-tls" => "; something else than TLS answers there",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_meet_has_its_own_reason() {
        let certificate = |error| reason(&Error::InvalidCertificate(error));
        assert_eq!(
            certificate(CertificateError::Expired),
            "certificate-expired"
        );
        assert_eq!(
            certificate(CertificateError::NotValidForName),
            "certificate-wrong-name"
        );
        assert_eq!(
            certificate(CertificateError::UnknownIssuer),
            "certificate-unknown-issuer"
        );
        let required = Error::AlertReceived(AlertDescription::CertificateRequired);
        assert_eq!(reason(&required), "client-certificate-missing");
        assert_eq!(
            reason(&Error::NoCertificatesPresented),
            "client-certificate-missing"
        );
        assert!(advice(&required).contains("with_client_certificate"));
    }
}
