//! The one way out for every request of a login: where it may go, how large an answer may be, and
//! what of an answer is passed on.
//!
//! It stands below rmcp's OAuth client, which knows the protocol. Answers with tokens are brought
//! into one plain form here, so that nothing else that an authorization server sends is kept, logged
//! or shown; the tokens are known to [`Secrets`] before anybody else sees them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::{HeaderValue, Response, header};
use reqwest::{Client, Url};
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};

use super::address::{Places, is_loopback};
use super::answers::{self, Problem, Registered, Tokens};
use crate::error::Error;
use crate::secrets::Secrets;

/// For one request, from the first packet to the last byte.
pub(super) const REQUEST_TIME: Duration = Duration::from_secs(20);

/// Longest answer, in bytes.
const LONGEST_ANSWER: usize = 256 * 1024;

/// So many requests one login may make: a server can name many places.
const MOST_REQUESTS: usize = 40;

/// Why a request gave no answer.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// It was not made, or its answer cannot be used; another time it would be the same.
    Refused(String),
    /// The other side was not reached.
    Unreachable(String),
}

impl Fault {
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Refused(text) | Self::Unreachable(text) => text,
        }
    }
}

/// The way out for the login at one server.
pub(super) struct Gate {
    client: Client,
    places: Places,
    server: String,
    secrets: Secrets,
    seen: Mutex<Seen>,
}

/// What went through.
#[derive(Default)]
pub(super) struct Seen {
    requests: usize,
    /// From the last answer of the token endpoint.
    pub(super) tokens: Option<Tokens>,
    /// What this program was registered as.
    pub(super) registered: Option<Registered>,
    /// What the last refusal of an authorization server said.
    pub(super) problem: Option<Problem>,
    /// Why the last request gave no answer.
    pub(super) fault: Option<Fault>,
    /// What protected-resource metadata said it was about.
    pub(super) resources: Vec<String>,
    /// The resource as it was named when tokens were granted, to be named so again.
    pub(super) resource: Option<String>,
}

impl Gate {
    pub(super) fn new(
        server: &str,
        url: &Url,
        issuer: Option<&Url>,
        secrets: &Secrets,
    ) -> Result<Self, Error> {
        let places = Places::new(url, issuer);
        let mut builder = Client::builder();
        if is_loopback(url) {
            builder = builder.no_proxy();
        }
        let client = builder
            .redirect(reqwest::redirect::Policy::none())
            .dns_resolver(Arc::new(places.clone()))
            .timeout(REQUEST_TIME)
            .referer(false)
            .build()
            .map_err(|_| Error::Connect("cannot set up HTTP for the login".to_owned()))?;
        Ok(Self {
            client,
            places,
            server: server.to_owned(),
            secrets: secrets.clone(),
            seen: Mutex::default(),
        })
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn places(&self) -> &Places {
        &self.places
    }

    /// Sends a request and brings the answer into its plain form.
    async fn pass(&self, request: OAuthHttpRequest) -> Result<Response<Vec<u8>>, Fault> {
        let mut request = request.request;
        let kind = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        let is_form = kind == Some(b"application/x-www-form-urlencoded");
        let is_registration = request.method() == "POST" && !is_form;
        let refused = |what: &str| Fault::Refused(what.to_owned());
        let url = Url::parse(&request.uri().to_string())
            .map_err(|_| refused("an address that was named is no url"))?;
        {
            let mut seen = self.seen();
            seen.requests += 1;
            if seen.requests > MOST_REQUESTS {
                let what = format!("more than {MOST_REQUESTS} requests were needed");
                return Err(Fault::Refused(what));
            }
            if is_form && let Some(resource) = &seen.resource {
                *request.body_mut() = with_resource(request.body(), resource);
            }
        }
        self.places.refuse(&url).map_err(Fault::Refused)?;
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let request = reqwest::Request::try_from(request)
            .map_err(|_| refused("the request could not be made"))?;
        let response = self.client.execute(request).await.map_err(unreachable)?;
        let status = response.status();
        let location = response.headers().get(header::LOCATION).cloned();
        let challenges: Vec<HeaderValue> =
            response.headers().get_all(header::WWW_AUTHENTICATE).iter().cloned().collect();
        let kind = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        let is_endless = kind.is_some_and(|kind| kind.starts_with(b"text/event-stream"));
        // The server itself may answer with a stream that never ends.
        let body = if is_endless { Vec::new() } else { read(response).await? };
        let body = if is_form {
            // A failure of its own says nothing about what it was asked.
            if status.is_server_error() {
                let what = format!("it failed (HTTP {})", status.as_u16());
                return Err(Fault::Unreachable(what));
            }
            self.tokens(status.is_success(), &body).map_err(Fault::Refused)?
        } else if is_registration {
            self.registration(status.is_success(), &body).map_err(Fault::Refused)?
        } else {
            self.metadata(&url, &body)
        };
        let (status, body) = match body {
            Answer::Plain(body) => (status, body),
            Answer::Refusal(body) if status.is_success() => {
                (axum::http::StatusCode::BAD_REQUEST, body)
            }
            Answer::Refusal(body) => (status, body),
        };
        let mut response = Response::builder().status(status);
        if let Some(location) = location {
            response = response.header(header::LOCATION, location);
        }
        for challenge in challenges {
            response = response.header(header::WWW_AUTHENTICATE, challenge);
        }
        response
            .header(header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|_| refused("the answer could not be read"))
    }

    fn tokens(&self, success: bool, body: &[u8]) -> Result<Answer, String> {
        let mut seen = self.seen();
        seen.tokens = None;
        match answers::tokens(success, body)? {
            Ok(tokens) => {
                self.secrets.learn(&self.server, &tokens.access_token);
                if let Some(refresh) = &tokens.refresh_token {
                    self.secrets.learn(&self.server, refresh);
                }
                let plain = tokens.to_json();
                seen.problem = None;
                seen.tokens = Some(tokens);
                Ok(Answer::Plain(plain))
            }
            Err(problem) => {
                let plain = problem.to_json();
                seen.problem = Some(problem);
                Ok(Answer::Refusal(plain))
            }
        }
    }

    fn registration(&self, success: bool, body: &[u8]) -> Result<Answer, String> {
        let mut seen = self.seen();
        match answers::registration(success, body)? {
            Ok(registered) => {
                if let Some(secret) = &registered.client_secret {
                    self.secrets.learn(&self.server, secret);
                }
                let plain = registered.to_json();
                seen.registered = Some(registered);
                Ok(Answer::Plain(plain))
            }
            Err(problem) => {
                let plain = problem.to_json();
                seen.problem = Some(problem);
                Ok(Answer::Refusal(plain))
            }
        }
    }

    fn metadata(&self, url: &Url, body: &[u8]) -> Answer {
        if url.path().contains("/oauth-protected-resource") {
            self.seen().resources.extend(answers::resource(body));
            return Answer::Plain(body.to_vec());
        }
        Answer::Plain(answers::server_metadata(body))
    }
}

/// The body of an answer.
enum Answer {
    Plain(Vec<u8>),
    Refusal(Vec<u8>),
}

/// The form with the resource named exactly as it was when tokens were granted.
fn with_resource(form: &[u8], resource: &str) -> Vec<u8> {
    let Ok(mut url) = Url::parse("form://form") else { return form.to_vec() };
    let text = String::from_utf8_lossy(form).into_owned();
    url.set_query(Some(&text));
    let pairs: Vec<(String, String)> = url
        .query_pairs()
        .filter(|(name, _)| name != "resource")
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    url.query_pairs_mut().clear().extend_pairs(pairs).append_pair("resource", resource);
    url.query().unwrap_or_default().as_bytes().to_vec()
}

async fn read(mut response: reqwest::Response) -> Result<Vec<u8>, Fault> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        if body.len() + chunk.len() > LONGEST_ANSWER {
            let what = format!("its answer is longer than {} KB", LONGEST_ANSWER >> 10);
            return Err(Fault::Refused(what));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn unreachable(error: reqwest::Error) -> Fault {
    Fault::Unreachable(crate::transport::http::words(error))
}

impl OAuthHttpClient for Gate {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let passed = self.pass(request).await;
            self.seen().fault = passed.as_ref().err().cloned();
            passed.map_err(|fault| fault.text().to_owned().into())
        })
    }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gate({})", self.server)
    }
}
