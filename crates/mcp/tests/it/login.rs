//! Logins under conditions that no foreign server makes: a store that takes nothing, one that
//! somebody else wrote meanwhile, a server that refuses whatever it gave.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use mcp::auth::{Credentials, Kept, Login, Parts, Settings, Vault};
use mcp::{Endpoint, Secrets};
use serde_json::{Value, json};

use crate::support::{connect, eventually, http};

/// A server with its authorization server, which revokes everything when a refresh token comes twice.
#[derive(Default)]
struct Authority {
    access: Mutex<String>,
    refresh: Mutex<String>,
    given: AtomicUsize,
    reused: AtomicUsize,
    /// Refuses every token, and yet gives new ones.
    deaf: AtomicBool,
    url: Mutex<String>,
}

impl Authority {
    async fn start() -> Arc<Self> {
        let authority = Arc::new(Self::default());
        *authority.access.lock().unwrap() = "access-token-0".to_owned();
        *authority.refresh.lock().unwrap() = "refresh-token-0".to_owned();
        let router = Router::new()
            .route("/mcp", post(serve))
            .route("/token", post(give))
            .with_state(Arc::clone(&authority));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        *authority.url.lock().unwrap() = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        authority
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url.lock().unwrap())
    }

    /// Forgets the access token.
    fn expire(&self) {
        *self.access.lock().unwrap() = "none".to_owned();
    }

    fn credentials(&self) -> Credentials {
        let issued = json!({
            "access_token": &*self.access.lock().unwrap(),
            "refresh_token": &*self.refresh.lock().unwrap(),
            "received_at": 0,
            "expires_in": null,
            "scopes": [],
            "client_id": "me",
            "client_secret": null,
            "resource": self.url("/mcp"),
            "issuer": self.url(""),
            "metadata": {
                "issuer": self.url(""),
                "authorization_endpoint": self.url("/authorize"),
                "token_endpoint": self.url("/token"),
            },
            "refused": null,
        });
        serde_json::from_value(issued).unwrap()
    }

    fn endpoint(&self, vault: &Arc<Memory>) -> Endpoint {
        let url = self.url("/mcp");
        let login = Login::new(Parts {
            server: "s".to_owned(),
            command: "pinfold login s".to_owned(),
            url: url.clone(),
            headers: BTreeMap::new(),
            settings: Settings::default(),
            secrets: Secrets::default(),
            vault: Arc::clone(vault) as Arc<dyn Vault>,
        });
        http(&url).with_login(login.unwrap())
    }
}

async fn serve(
    State(authority): State<Arc<Authority>>,
    headers: HeaderMap,
    body: String,
) -> Response {
    let wanted = format!("Bearer {}", authority.access.lock().unwrap());
    let is_right = headers.get(header::AUTHORIZATION).is_some_and(|given| given == wanted.as_str());
    if !is_right || authority.deaf.load(Ordering::Relaxed) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let message: Value = serde_json::from_str(&body).unwrap();
    let result = match message["method"].as_str().unwrap_or_default() {
        "server/discover" => json!({"supportedVersions": ["2026-07-28"], "capabilities": {}}),
        "tools/list" => json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}),
        _ => json!({"content": [{"type": "text", "text": "done"}]}),
    };
    Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response()
}

async fn give(State(authority): State<Arc<Authority>>, body: String) -> Response {
    let current = authority.refresh.lock().unwrap().clone();
    if !body.contains(&format!("refresh_token={current}")) {
        authority.reused.fetch_add(1, Ordering::Relaxed);
        *authority.refresh.lock().unwrap() = "revoked".to_owned();
        let refusal = Json(json!({"error": "invalid_grant"}));
        return (StatusCode::BAD_REQUEST, refusal).into_response();
    }
    let number = authority.given.fetch_add(1, Ordering::Relaxed) + 1;
    *authority.access.lock().unwrap() = format!("access-token-{number}");
    *authority.refresh.lock().unwrap() = format!("refresh-token-{number}");
    Json(json!({
        "access_token": format!("access-token-{number}"),
        "refresh_token": format!("refresh-token-{number}"),
        "token_type": "Bearer",
    }))
    .into_response()
}

/// A vault in memory that can refuse to take anything.
#[derive(Debug, Default)]
struct Memory {
    kept: Mutex<Option<Kept>>,
    versions: AtomicUsize,
    is_full: AtomicBool,
}

impl Memory {
    fn with(credentials: Credentials) -> Arc<Self> {
        let memory = Self::default();
        let kept = Kept { credentials, version: "v".to_owned(), claim: String::new() };
        *memory.kept.lock().unwrap() = Some(kept);
        Arc::new(memory)
    }

    fn now(&self) -> Value {
        let kept = self.kept.lock().unwrap();
        serde_json::to_value(&kept.as_ref().unwrap().credentials).unwrap()
    }
}

#[async_trait::async_trait]
impl Vault for Memory {
    async fn load(&self) -> Result<Option<Kept>, String> {
        Ok(self.kept.lock().unwrap().clone())
    }

    async fn put(&self, credentials: &Credentials) -> Result<(), String> {
        let number = self.versions.fetch_add(1, Ordering::Relaxed);
        let version = format!("v{number}");
        let kept = Kept { credentials: credentials.clone(), version, claim: String::new() };
        *self.kept.lock().unwrap() = Some(kept);
        Ok(())
    }

    async fn claim(&self, version: &str, held: &str, claim: &str) -> Result<bool, String> {
        let mut kept = self.kept.lock().unwrap();
        let found = kept.as_mut().filter(|kept| kept.version == version && kept.claim == held);
        Ok(found.map(|kept| kept.claim = claim.to_owned()).is_some())
    }

    async fn release(&self, version: &str, claim: &str) -> Result<(), String> {
        self.claim(version, claim, "").await.map(|_| ())
    }

    async fn swap(
        &self,
        version: &str,
        claim: &str,
        credentials: &Credentials,
    ) -> Result<Option<String>, String> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err("the disk is full".to_owned());
        }
        let fits = |kept: &Kept| kept.version == version && kept.claim == claim;
        if !self.kept.lock().unwrap().as_ref().is_some_and(fits) {
            return Ok(None);
        }
        self.put(credentials).await?;
        Ok(self.kept.lock().unwrap().as_ref().map(|kept| kept.version.clone()))
    }
}

async fn works(server: &crate::support::Connected) {
    assert_eq!(server.call("t", json!({})).await.unwrap().text, "done");
}

#[tokio::test]
async fn a_renewed_token_that_the_store_does_not_take_is_not_lost() {
    let authority = Authority::start().await;
    let vault = Memory::with(authority.credentials());
    let server = connect(&authority.endpoint(&vault)).await.unwrap();
    vault.is_full.store(true, Ordering::Relaxed);
    // Also over several renewals the one refresh token that counts is the one that is used.
    for _ in 0..3 {
        authority.expire();
        works(&server).await;
    }
    assert_eq!(vault.now()["refresh_token"], "refresh-token-0");
    vault.is_full.store(false, Ordering::Relaxed);
    eventually("the store has the newest", || vault.now()["refresh_token"] == "refresh-token-3")
        .await;
    authority.expire();
    works(&server).await;
    assert_eq!(authority.reused.load(Ordering::Relaxed), 0);
    // Another process goes on with what is kept.
    let other = connect(&authority.endpoint(&vault)).await.unwrap();
    authority.expire();
    works(&other).await;
    assert_eq!(authority.reused.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_call_that_is_given_up_does_not_break_off_the_renewal() {
    let authority = Authority::start().await;
    let vault = Memory::with(authority.credentials());
    let server = connect(&authority.endpoint(&vault)).await.unwrap();
    authority.expire();
    let call = server.call("t", json!({}));
    // Long enough for some to be given up on the way, wherever they are.
    for micros in [0, 50, 200, 1_000, 3_000] {
        let time = std::time::Duration::from_micros(micros);
        let _ = tokio::time::timeout(time, server.call("t", json!({}))).await;
    }
    assert_eq!(call.await.unwrap().text, "done");
    assert_eq!(authority.reused.load(Ordering::Relaxed), 0);
    eventually("it is kept", || {
        vault.now()["refresh_token"] == *authority.refresh.lock().unwrap().as_str()
    })
    .await;
}

#[tokio::test]
async fn a_server_that_refuses_whatever_it_gave_is_not_asked_without_end() {
    let authority = Authority::start().await;
    let vault = Memory::with(authority.credentials());
    let server = connect(&authority.endpoint(&vault)).await.unwrap();
    authority.deaf.store(true, Ordering::Relaxed);
    let mut said = String::new();
    for _ in 0..20 {
        said = server.call("t", json!({})).await.unwrap_err().to_string();
    }
    assert!(said.contains("needs login: pinfold login s"), "{said}");
    assert!(!said.contains("-token-"), "{said}");
    let given = authority.given.load(Ordering::Relaxed);
    assert!(given <= 4, "{given} tokens were asked for");
}

#[tokio::test]
async fn who_logged_in_meanwhile_is_not_undone() {
    let authority = Authority::start().await;
    let vault = Memory::with(authority.credentials());
    let server = connect(&authority.endpoint(&vault)).await.unwrap();
    // The refresh token that this process knows is used up by a new login elsewhere.
    *authority.access.lock().unwrap() = "access-token-new".to_owned();
    *authority.refresh.lock().unwrap() = "refresh-token-new".to_owned();
    vault.put(&authority.credentials()).await.unwrap();
    works(&server).await;
    assert_eq!(vault.now()["refresh_token"], "refresh-token-new");
    assert_eq!(authority.given.load(Ordering::Relaxed), 0);
    // And who logged out is out, at the latest when the token is refused.
    *vault.kept.lock().unwrap() = None;
    authority.expire();
    let error = server.call("t", json!({})).await.unwrap_err().to_string();
    assert!(error.contains("needs login: pinfold login s"), "{error}");
    assert!(vault.kept.lock().unwrap().is_none());
}
