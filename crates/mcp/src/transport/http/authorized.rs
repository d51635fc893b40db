//! Requests with the token of a login. One that the server refuses (401) was not carried out: the
//! token is renewed and the request made once more, also if it is a write.

use std::sync::atomic::Ordering;

use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::{RequestBuilder, Response, StatusCode};

use super::Shared;
use crate::auth::{Login, Token, Trouble};
use crate::error::Error;

/// A call of a tool that has no answer yet.
pub(super) struct InFlight<'a>(&'a Shared);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    pub(super) fn count(&self) -> InFlight<'_> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        InFlight(self)
    }

    /// Sends and waits for the head of the response.
    pub(super) async fn send(&self, request: RequestBuilder) -> Result<Response, Error> {
        self.send_within(request, None).await
    }

    /// The same for a request that may be a call.
    pub(super) async fn send_within(
        &self,
        request: RequestBuilder,
        call: Option<&InFlight<'_>>,
    ) -> Result<Response, Error> {
        let Some(login) = &self.login else { return self.send_bare(request).await };
        let again = request.try_clone();
        let token = login.token().await.map_err(|trouble| self.without(login, &trouble, call))?;
        let response = self.send_bare(bearing(request, token.as_ref())).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            if token.is_some() {
                login.accepted();
            }
            return Ok(response);
        }
        let Some(again) = again else { return Ok(response) };
        drop(response);
        let token = login.refused(token.as_ref()).await;
        let token = token.map_err(|trouble| self.without(login, &trouble, call))?;
        let response = self.send_bare(bearing(again, Some(&token))).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            login.accepted();
        }
        Ok(response)
    }

    /// There is no token. A connection of no more use is ended, so that it is seen why and that
    /// somebody who logs in is noticed; but not under the calls that were taken before.
    fn without(&self, login: &Login, trouble: &Trouble, call: Option<&InFlight<'_>>) -> Error {
        let reason = self.inbox.journal().hide(&login.explained(trouble));
        if self.calls.load(Ordering::Relaxed) > usize::from(call.is_some()) {
            return Error::Refused(reason);
        }
        self.inbox.end(&reason, false);
        Error::Connect(reason)
    }
}

/// With the token there is, for a request that is not worth a second attempt.
pub(super) async fn with(login: Option<Login>, request: RequestBuilder) -> RequestBuilder {
    let Some(login) = login else { return request };
    let token = login.token().await.ok().flatten();
    bearing(request, token.as_ref())
}

fn bearing(request: RequestBuilder, token: Option<&Token>) -> RequestBuilder {
    let header = token.and_then(|token| HeaderValue::from_str(&token.header()).ok());
    match header {
        Some(mut header) => {
            header.set_sensitive(true);
            request.header(AUTHORIZATION, header)
        }
        None => request,
    }
}
