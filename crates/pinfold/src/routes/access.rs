//! Who calls: a token, a person at a browser, or, where there are no tokens, somebody on this
//! machine.
//!
//! Without tokens every program on this machine can open a connection, the agent's own ones
//! included. Calling tools is open to them; seeing and answering what a person is asked is not: it
//! takes the key that stands in `data_dir` and in the link that `pinfold serve` prints.

use axum::http::{HeaderMap, header};
use gateway::Approval;
use sha2::{Digest, Sha256};

use super::browsers::Browsers;
use super::error::Refusal;
use crate::config::file::{Auth, Role, Token};
use crate::serving::PERSON;
use crate::wiring::PRINCIPAL;

/// The tokens, or the key of the one person where there are none.
#[derive(Debug)]
pub(crate) struct Access {
    door: Door,
    pub(super) browsers: Browsers,
}

#[derive(Debug)]
enum Door {
    Tokens(Auth),
    /// The digest of the person's key.
    Person(String),
}

/// Who calls tools, and under which profile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Guest {
    pub(crate) principal: String,
    pub(crate) profile: String,
}

/// Who uses the API or the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// As it stands in records.
    pub(crate) name: String,
    /// The profile whose tools it has.
    pub(crate) profile: String,
    pub(crate) roles: Vec<Role>,
    /// Of a browser: what its forms have to hold.
    pub(crate) form_key: Option<String>,
}

impl Caller {
    fn has(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    /// Whose things it may see: everybody's (`None`), or only those of this principal.
    pub(super) fn sees_only(&self) -> Result<Option<String>, Refusal> {
        if self.has(Role::Admin) {
            return Ok(None);
        }
        if self.has(Role::Agent) {
            return Ok(Some(self.name.clone()));
        }
        Err(Refusal::forbidden(format!(
            "{} may only see and answer approvals; this takes the role admin",
            self.name
        )))
    }

    /// The same for approvals.
    pub(super) fn sees_approvals_of(&self) -> Option<String> {
        let all = self.has(Role::Admin) || self.has(Role::Approver);
        (!all).then(|| self.name.clone())
    }

    /// What an agent asks for a person has to answer, and not the agent's own token.
    pub(super) fn answers(&self, approval: &Approval) -> Result<(), Refusal> {
        let may = self.has(Role::Admin) || (self.has(Role::Approver) && !self.has(Role::Agent));
        if !may {
            return Err(Refusal::forbidden(format!(
                "{} cannot answer approvals: that takes a token with the role approver or admin \
                 and without the role agent",
                self.name
            )));
        }
        if self.name == approval.principal {
            return Err(Refusal::forbidden(format!(
                "{} has made this call itself and cannot answer for it: use another token",
                self.name
            )));
        }
        Ok(())
    }
}

impl Access {
    /// `person` is the key that counts where there are no tokens.
    pub(crate) fn new(auth: Option<Auth>, person: &str) -> Self {
        let door = match auth.filter(|auth| !auth.tokens.is_empty()) {
            Some(auth) => Door::Tokens(auth),
            None => Door::Person(digest(person)),
        };
        Self { door, browsers: Browsers::default() }
    }

    /// Whether everybody who reaches the address may call tools.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.door, Door::Person(_))
    }

    /// The guest, who may call tools of `profile`, or of the token's own one.
    pub(crate) fn agent(
        &self,
        headers: &HeaderMap,
        profile: Option<&str>,
    ) -> Result<Guest, Refusal> {
        let Door::Tokens(auth) = &self.door else {
            let profile = profile.unwrap_or("default").to_owned();
            return Ok(Guest { principal: PRINCIPAL.to_owned(), profile });
        };
        let token = bearer(headers).and_then(|secret| find(auth, secret));
        let token = token.ok_or_else(|| self.unknown())?;
        let has = |role| token.roles.contains(&role);
        if !has(Role::Agent) && !has(Role::Admin) {
            let why = format!("the token {} has no role that may call tools", token.name);
            return Err(Refusal::forbidden(why));
        }
        let profile = profile.unwrap_or(&token.profile);
        if profile != token.profile && !has(Role::Admin) {
            let why = format!("the token {} is for another profile", token.name);
            return Err(Refusal::forbidden(why));
        }
        Ok(Guest { principal: principal(token), profile: profile.to_owned() })
    }

    /// Who uses the API: by a token or key in the header, or as a browser that has entered.
    pub(super) fn caller(&self, headers: &HeaderMap) -> Result<Caller, Refusal> {
        let caller = match bearer(headers) {
            Some(secret) => self.by_secret(secret),
            None => self.browsers.find(headers),
        };
        caller.ok_or_else(|| self.unknown())
    }

    /// Whose token or key this is.
    pub(super) fn by_secret(&self, secret: &str) -> Option<Caller> {
        match &self.door {
            Door::Tokens(auth) => find(auth, secret).map(|token| Caller {
                name: principal(token),
                profile: token.profile.clone(),
                roles: token.roles.clone(),
                form_key: None,
            }),
            Door::Person(known) => (digest(secret) == *known).then(|| Caller {
                name: "the person with the key".to_owned(),
                profile: "default".to_owned(),
                roles: vec![Role::Admin],
                form_key: None,
            }),
        }
    }

    fn unknown(&self) -> Refusal {
        Refusal::unknown(match self.door {
            Door::Tokens(_) => {
                "send `Authorization: Bearer TOKEN` with a token of [auth] tokens".to_owned()
            }
            Door::Person(_) => format!(
                "send `Authorization: Bearer KEY` with the key that stands in {PERSON} in \
                 data_dir and in the link that pinfold serve has printed"
            ),
        })
    }

    /// How a person gets in, for a page.
    pub(super) fn how_to_enter(&self) -> String {
        match self.door {
            Door::Tokens(_) => "Enter a token with the role approver or admin.".to_owned(),
            Door::Person(_) => format!(
                "Open the link that pinfold serve has printed in its terminal, or enter the key \
                 that stands in the file {PERSON} in its data_dir."
            ),
        }
    }
}

fn principal(token: &Token) -> String {
    format!("token {}", token.name)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, secret) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
}

/// The digest is compared, so that the time it takes says nothing about the token.
fn find<'a>(auth: &'a Auth, secret: &str) -> Option<&'a Token> {
    let digest = digest(secret);
    auth.tokens.iter().find(|token| token.sha256.eq_ignore_ascii_case(&digest))
}

pub(super) fn digest(secret: &str) -> String {
    let digest = Sha256::digest(secret.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use super::*;

    fn headers(authorization: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, authorization.parse().unwrap());
        headers
    }

    fn access() -> Access {
        let token = |name: &str, secret: &str, roles| Token {
            name: name.to_owned(),
            sha256: digest(secret).to_uppercase(),
            roles,
            profile: "ops".to_owned(),
        };
        let tokens = vec![
            token("ci", "s3cret", vec![Role::Agent]),
            token("boss", "b0ss", vec![Role::Admin]),
            token("watch", "w4tch", vec![Role::Approver]),
        ];
        Access::new(Some(Auth { tokens }), "p3rson")
    }

    #[test]
    fn only_a_token_for_the_profile_comes_in() {
        let access = access();
        let agent = |header: &str, profile| access.agent(&headers(header), profile);
        let guest = |principal: &str, profile: &str| Guest {
            principal: principal.to_owned(),
            profile: profile.to_owned(),
        };
        let status = |header: &str, profile| agent(header, profile).unwrap_err().status();
        assert_eq!(agent("Bearer s3cret", None).unwrap(), guest("token ci", "ops"));
        assert_eq!(agent("bearer s3cret", Some("ops")).unwrap(), guest("token ci", "ops"));
        assert_eq!(agent("Bearer b0ss", Some("other")).unwrap(), guest("token boss", "other"));
        assert_eq!(status("Bearer s3cret", Some("other")), StatusCode::FORBIDDEN);
        assert_eq!(status("Bearer w4tch", None), StatusCode::FORBIDDEN);
        for wrong in [
            "Bearer",
            "Bearer ",
            "Bearer s3cre",
            "Basic s3cret",
            "s3cret",
            "Bearer ci",
            "Bearer p3rson",
        ] {
            assert_eq!(status(wrong, None), StatusCode::UNAUTHORIZED, "{wrong}");
            let caller = access.caller(&headers(wrong));
            assert_eq!(caller.unwrap_err().status(), StatusCode::UNAUTHORIZED, "{wrong}");
        }
        let nobody = access.agent(&HeaderMap::new(), None).unwrap_err();
        assert_eq!(nobody.status(), StatusCode::UNAUTHORIZED);
    }

    #[test]
    fn without_tokens_everybody_here_calls_tools_and_only_the_key_answers() {
        let access = Access::new(None, "p3rson");
        let guest = access.agent(&HeaderMap::new(), None).unwrap();
        assert_eq!((guest.principal.as_str(), guest.profile.as_str()), ("local", "default"));
        assert!(access.is_open());
        assert!(access.caller(&HeaderMap::new()).is_err());
        assert!(access.caller(&headers("Bearer x")).is_err());
        let person = access.caller(&headers("Bearer p3rson")).unwrap();
        assert_eq!(person.sees_only().unwrap(), None);
        assert_ne!(person.name, guest.principal, "or it could answer nothing");
    }

    #[test]
    fn an_agent_sees_its_own_and_an_approver_only_approvals() {
        let access = access();
        let caller = |secret: &str| access.by_secret(secret).unwrap();
        assert_eq!(caller("s3cret").sees_only().unwrap().as_deref(), Some("token ci"));
        assert_eq!(caller("s3cret").sees_approvals_of().as_deref(), Some("token ci"));
        assert_eq!(caller("b0ss").sees_only().unwrap(), None);
        assert_eq!(caller("w4tch").sees_only().unwrap_err().status(), StatusCode::FORBIDDEN);
        assert_eq!(caller("w4tch").sees_approvals_of(), None);
    }
}
