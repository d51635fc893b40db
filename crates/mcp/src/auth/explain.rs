//! What went wrong with a login, in words that say what to do.

use rmcp::transport::auth::{AuthError, ProtectedResourceMetadataInvalidReason as Invalid};

use super::gate::{Fault, Gate};
use super::{Inner, Trouble};
use crate::endpoint::origin;
use crate::message::shorten;

/// Longest excerpt of what somebody else said, in bytes.
const LONGEST: usize = 300;

/// Codes of refusals that another attempt with the same credentials will meet again.
const FINAL: [&str; 7] = [
    "invalid_grant",
    "invalid_client",
    "unauthorized_client",
    "invalid_scope",
    "invalid_target",
    "unsupported_grant_type",
    "access_denied",
];

/// An error of rmcp's, with what the gate saw of it.
pub(super) fn explain(login: &Inner, gate: &Gate, error: &AuthError) -> Trouble {
    let (problem, fault) = {
        let seen = gate.seen();
        (seen.problem.clone(), seen.fault.clone())
    };
    let fault_text = fault.as_ref().map(Fault::text);
    let refused = |what: String| Trouble::Refused(login.shown(&what));
    match error {
        AuthError::ProtectedResourceMetadataInvalid { reason, .. } => match reason.as_ref() {
            Invalid::ResourceMismatch { permitted, .. } => refused(format!(
                "its metadata is about another resource ({}), so it is not trusted",
                origin(permitted.as_str())
            )),
            _ => refused("its protected-resource metadata is not usable".to_owned()),
        },
        AuthError::AuthorizationServersUnavailable { authorization_servers, .. } => {
            let named: Vec<String> =
                authorization_servers.iter().take(3).map(|one| origin(one)).collect();
            let why = fault_text
                .unwrap_or("it publishes no metadata, or stands where no login may lead to");
            refused(format!("the authorization server {} is of no use: {why}", named.join(", ")))
        }
        AuthError::AuthorizationServerMismatch { expected_issuer, received_issuer } => {
            refused(format!(
                "an answer came from the authorization server {} and not from {}, so it is not \
                 trusted",
                shorten(received_issuer, LONGEST),
                shorten(expected_issuer, LONGEST),
            ))
        }
        AuthError::AuthorizationServerMissingIssuer { .. } => {
            refused("an answer of the authorization server does not say who it is from".to_owned())
        }
        AuthError::PkceUnsupported => {
            refused("the authorization server does not do PKCE with S256".to_owned())
        }
        AuthError::DiscoveryRequestFailed { url, source } => {
            let what = format!("{}: {source}", origin(url.as_str()));
            match fault {
                Some(Fault::Refused(_)) => refused(what),
                _ => Trouble::Unreachable(login.shown(&what)),
            }
        }
        AuthError::RegistrationFailed(_) => {
            let why = match (&problem, fault_text) {
                (_, Some(fault)) => fault.to_owned(),
                (Some(problem), None) => problem.code.clone(),
                (None, None) => "it takes no registrations".to_owned(),
            };
            refused(format!(
                "pinfold could not be registered at the authorization server ({why}); register it \
                 there by hand and write its `client_id` into `oauth`"
            ))
        }
        AuthError::TokenRefreshRejected(_)
        | AuthError::TokenRefreshFailed(_)
        | AuthError::TokenExchangeFailed(_)
        | AuthError::ClientCredentialsError(_) => match (&problem, fault) {
            (_, Some(Fault::Unreachable(what))) => Trouble::Unreachable(
                login.shown(&format!("the authorization server cannot be reached: {what}")),
            ),
            (_, Some(Fault::Refused(what))) => refused(format!("the authorization server: {what}")),
            (Some(problem), None) if FINAL.contains(&problem.code.as_str()) => {
                Trouble::NeedsLogin(format!("the authorization server refused: {}", problem.code))
            }
            (Some(problem), None) => {
                Trouble::Unreachable(format!("the authorization server refused: {}", problem.code))
            }
            (None, None) => refused(shorten(&error.to_string(), LONGEST)),
        },
        AuthError::AuthorizationRequired => {
            Trouble::NeedsLogin("its credentials are of no more use".to_owned())
        }
        other => refused(shorten(&other.to_string(), LONGEST)),
    }
}
