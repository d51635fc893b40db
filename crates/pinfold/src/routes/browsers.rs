//! Browsers in which a person has entered: a cookie stands for the token or key from then on.
//!
//! A cookie names nobody outside this process, ends with it, and is sent by no page of another
//! site. A form has to hold a second secret, which only a page of ours can know.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderValue, header};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::access::{Caller, digest};

/// So long does an entry last.
const LASTS: Duration = Duration::from_secs(12 * 3600);

/// Entries that are remembered; the oldest go first.
const MOST: usize = 200;

/// Wrong secrets in a row that are looked at before everybody has to wait.
const TRIES: u32 = 20;

/// How long.
const PAUSE: Duration = Duration::from_secs(5);

const COOKIE: &str = "pinfold";

#[derive(Debug, Default)]
pub(super) struct Browsers(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// By the digest of the cookie.
    entered: HashMap<String, (Caller, Instant)>,
    wrong: u32,
    last_wrong: Option<Instant>,
}

impl Browsers {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a secret may be tried now.
    pub(super) fn may_try(&self) -> bool {
        let mut inner = self.lock();
        if inner.wrong >= TRIES && inner.last_wrong.is_some_and(|at| at.elapsed() >= PAUSE) {
            inner.wrong = 0;
        }
        inner.wrong < TRIES
    }

    pub(super) fn was_wrong(&self) {
        let mut inner = self.lock();
        inner.wrong += 1;
        inner.last_wrong = Some(Instant::now());
    }

    /// Lets a person in; the value of the header that the browser gets.
    pub(super) fn enter(&self, caller: Caller) -> std::io::Result<HeaderValue> {
        let cookie = random()?;
        let caller = Caller { form_key: Some(random()?), ..caller };
        let now = Instant::now();
        let mut inner = self.lock();
        inner.wrong = 0;
        inner.entered.retain(|_, (_, since)| now.duration_since(*since) < LASTS);
        if inner.entered.len() >= MOST {
            let oldest = inner.entered.iter().min_by_key(|(_, (_, since))| *since);
            if let Some(oldest) = oldest.map(|(cookie, _)| cookie.clone()) {
                inner.entered.remove(&oldest);
            }
        }
        inner.entered.insert(digest(&cookie), (caller, now));
        let seconds = LASTS.as_secs();
        let value =
            format!("{COOKIE}={cookie}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}");
        HeaderValue::from_str(&value).map_err(std::io::Error::other)
    }

    /// Who has entered in the browser that sends these headers.
    pub(super) fn find(&self, headers: &HeaderMap) -> Option<Caller> {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let mut values = cookies.flat_map(|line| line.split(';')).filter_map(|cookie| {
            let (name, value) = cookie.trim().split_once('=')?;
            (name == COOKIE).then_some(value)
        });
        // Another program on this machine may have set one of the same name.
        values.by_ref().take(8).find_map(|value| {
            let inner = self.lock();
            let (caller, since) = inner.entered.get(&digest(value))?;
            (since.elapsed() < LASTS).then(|| caller.clone())
        })
    }
}

fn random() -> std::io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
