//! The way back from the browser: a port of this machine, open for one answer.
//!
//! Anybody on this machine, and any page in its browser, may knock. Only who knows the state of this
//! very login is heard; everybody else is turned away and changes nothing.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};

/// Where the browser comes back to.
const PATH: &str = "/callback";

/// Longest head of a request, in bytes, and how long it may take.
const LONGEST_HEAD: usize = 16 * 1024;
const HEAD_TIME: Duration = Duration::from_secs(10);

/// So many may knock at once.
const AT_ONCE: usize = 16;

/// What the authorization server sent the browser back with.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Callback {
    /// The code, or the error's code.
    pub(super) outcome: Result<String, String>,
    pub(super) issuer: Option<String>,
}

/// The port, open.
pub(super) struct Redirect {
    listener: TcpListener,
    address: SocketAddr,
}

impl Redirect {
    /// Opens the port that was registered, or any.
    pub(super) async fn open(port: Option<u16>) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    pub(super) fn uri(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Waits for the answer to the login with this state; never ends without one.
    pub(super) async fn wait(
        &self,
        state: &str,
        strangers: &mpsc::UnboundedSender<()>,
    ) -> Callback {
        let (found, mut answers) = mpsc::channel(1);
        let room = Arc::new(Semaphore::new(AT_ONCE));
        let state: Arc<str> = Arc::from(state);
        loop {
            tokio::select! {
                Some(callback) = answers.recv() => return callback,
                accepted = self.listener.accept() => {
                    let Ok((stream, _)) = accepted else {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        continue;
                    };
                    let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { continue };
                    let (found, state) = (found.clone(), Arc::clone(&state));
                    let strangers = strangers.clone();
                    tokio::spawn(async move {
                        let heard = tokio::time::timeout(HEAD_TIME, hear(stream, &state)).await;
                        match heard {
                            Ok(Heard::Answer(callback)) => {
                                let _ = found.try_send(callback);
                            }
                            Ok(Heard::Stranger) => {
                                let _ = strangers.send(());
                            }
                            Ok(Heard::Nothing) | Err(_) => {}
                        }
                        drop(permit);
                    });
                }
            }
        }
    }
}

enum Heard {
    Answer(Callback),
    /// Somebody came to the right place without the right state.
    Stranger,
    Nothing,
}

async fn hear(mut stream: TcpStream, state: &str) -> Heard {
    let mut head = Vec::new();
    let mut buffer = [0; 2048];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return Heard::Nothing,
            Ok(count) => head.extend_from_slice(&buffer[..count]),
        }
        if head.len() > LONGEST_HEAD {
            return Heard::Nothing;
        }
    }
    let head = String::from_utf8_lossy(&head);
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let is_here = target.split('?').next() == Some(PATH);
    if method != "GET" || !is_here {
        answer(&mut stream, "404 Not Found", "There is nothing here.").await;
        return Heard::Nothing;
    }
    match parse(&format!("http://127.0.0.1{target}"), state) {
        Some(callback) => {
            let text = "The answer has arrived. Look at the terminal; this window can be closed.";
            answer(&mut stream, "200 OK", text).await;
            Heard::Answer(callback)
        }
        None => {
            let text = "This is not the answer to the login that is waited for.";
            answer(&mut stream, "400 Bad Request", text).await;
            Heard::Stranger
        }
    }
}

/// The callback in an address, if it is about the login with this state.
pub(super) fn parse(url: &str, state: &str) -> Option<Callback> {
    let url = Url::parse(url.trim()).ok()?;
    let one = |wanted: &str| {
        let mut found = url.query_pairs().filter(|(name, _)| name == wanted);
        let value = found.next().map(|(_, value)| value.into_owned());
        // Of two nobody knows which one the authorization server wrote.
        match found.next() {
            Some(_) => Err(()),
            None => Ok(value),
        }
    };
    let given = one("state").ok()??;
    if state.is_empty() || !is_same(given.as_bytes(), state.as_bytes()) {
        return None;
    }
    let issuer = one("iss").ok()?;
    let outcome = match (one("code").ok()?, one("error").ok()?) {
        (_, Some(error)) => Err(error),
        (Some(code), None) if !code.is_empty() => Ok(code),
        _ => return None,
    };
    Some(Callback { outcome, issuer })
}

/// Compares in a time that says nothing about where they differ.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

async fn answer(stream: &mut TcpStream, status: &str, text: &str) {
    let response = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n\
         cache-control: no-store\r\nreferrer-policy: no-referrer\r\n\
         content-security-policy: default-src 'none'; frame-ancestors 'none'\r\n\
         x-content-type-options: nosniff\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
    let _ = stream.write_all(response.as_bytes()).await;
    let _ = stream.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(url: &str) -> Option<Result<String, String>> {
        parse(url, "the-state").map(|callback| callback.outcome)
    }

    #[test]
    fn only_an_answer_with_the_right_state_is_one() {
        let base = "http://127.0.0.1/callback";
        assert_eq!(code(&format!("{base}?code=c&state=the-state")), Some(Ok("c".into())));
        assert_eq!(
            code(&format!("{base}?error=access_denied&state=the-state&code=c")),
            Some(Err("access_denied".into()))
        );
        for wrong in [
            "code=c",
            "state=the-state",
            "code=&state=the-state",
            "code=c&state=",
            "code=c&state=the-stat",
            "code=c&state=the-statE",
            "code=c&state=x&state=the-state",
            "code=c&code=d&state=the-state",
            "code=c&state=the-state&iss=a&iss=b",
        ] {
            assert_eq!(code(&format!("{base}?{wrong}")), None, "{wrong}");
        }
        assert!(parse(&format!("{base}?code=c&state="), "").is_none());
        assert_eq!(code("not an address"), None);
    }

    async fn get(address: SocketAddr, target: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn strangers_change_nothing() {
        let redirect = Redirect::open(None).await.unwrap();
        let address = redirect.address;
        assert!(address.ip().is_loopback());
        let (strangers, mut seen) = mpsc::unbounded_channel();
        let knocking = async {
            // One that says nothing holds up nobody.
            let silent = TcpStream::connect(address).await.unwrap();
            assert!(get(address, "/favicon.ico").await.starts_with("HTTP/1.1 404"));
            let wrong = get(address, "/callback?code=<b>evil</b>&state=guess").await;
            assert!(wrong.starts_with("HTTP/1.1 400") && !wrong.contains("evil"), "{wrong}");
            let right = get(address, "/callback?code=c&state=right&iss=https%3A%2F%2Fa").await;
            assert!(right.starts_with("HTTP/1.1 200"), "{right}");
            drop(silent);
        };
        let (callback, ()) = tokio::join!(redirect.wait("right", &strangers), knocking);
        assert_eq!(callback.outcome, Ok("c".to_owned()));
        assert_eq!(callback.issuer.as_deref(), Some("https://a"));
        assert!(seen.try_recv().is_ok() && seen.try_recv().is_err());
        drop(redirect);
        assert!(TcpStream::connect(address).await.is_err(), "the port is still open");
    }
}
