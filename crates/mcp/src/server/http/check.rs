//! What is checked of headers: that a page in a browser cannot send requests here, and that
//! headers say what the body says.

use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{NotTaken, Sent, VERSION, value};
use crate::message::{code, fields};
use crate::server::{Headers, Refusal};
use crate::transport::http::headers::decode;

const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// From where requests may come.
#[derive(Clone, Debug)]
pub enum Gate {
    /// This machine only: whoever names it otherwise was sent here by a name that leads astray.
    Loopback,
    /// Anywhere, because callers show a token; but no page of another site may send one.
    Anywhere,
}

impl Gate {
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<(), NotTaken> {
        let forbidden = |why: &str| NotTaken::new(StatusCode::FORBIDDEN, why);
        self.refuses(headers).map_or(Ok(()), |why| Err(forbidden(why)))
    }

    /// Why a request with these headers may not come in, if so. For whatever else is served at the
    /// same address.
    #[must_use]
    pub fn refuses(&self, headers: &HeaderMap) -> Option<&'static str> {
        let host = value(headers, &header::HOST);
        if matches!(self, Self::Loopback) && !host.is_some_and(is_loopback) {
            return Some("the Host of the request is not this machine");
        }
        if let Some(origin) = headers.get(header::ORIGIN) {
            let origin = origin.to_str().unwrap_or("null");
            let from = origin.split_once("://").map(|(_, authority)| authority);
            let same = from.is_some() && from == host;
            let local = matches!(self, Self::Loopback) && from.is_some_and(is_loopback);
            if !same && !local {
                return Some("pages of another origin may not send requests here");
            }
        }
        None
    }
}

/// Whether `host` or `host:port` is a name of this machine.
fn is_loopback(authority: &str) -> bool {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => authority,
    };
    matches!(host, "localhost" | "127.0.0.1" | "[::1]")
}

/// Of 2026-07-28: what stands in headers is what stands in the body.
pub(super) fn mirrored(headers: &HeaderMap, sent: &Sent) -> Result<(), NotTaken> {
    let wanted = [
        (VERSION, "MCP-Protocol-Version", sent.version.as_deref()),
        (METHOD, "Mcp-Method", sent.method.as_deref()),
        (NAME, "Mcp-Name", sent.name.as_deref()),
    ];
    for (header, shown, in_body) in wanted {
        // What is missing in the body is the body's own fault, told when it is read.
        let Some(in_body) = in_body else { continue };
        let in_header = headers.get(&header).and_then(|value| decode(value.as_bytes()));
        if in_header.as_deref() == Some(in_body) {
            continue;
        }
        let why = if headers.contains_key(&header) {
            format!("the header {shown} does not say what the body says")
        } else {
            format!("the header {shown} is missing")
        };
        let refusal = Refusal::new(code::HEADER_MISMATCH, why);
        return Err(NotTaken(StatusCode::BAD_REQUEST, refusal));
    }
    Ok(())
}

/// The same of the arguments of a call that have to be repeated in headers.
pub(super) fn arguments(
    headers: &HeaderMap,
    wanted: &Headers,
    params: Option<&RawValue>,
) -> Result<(), NotTaken> {
    #[derive(Default, Deserialize)]
    struct Params<'a> {
        #[serde(borrow, default)]
        arguments: Option<&'a RawValue>,
    }
    let Headers(wanted) = wanted;
    if wanted.is_empty() {
        return Ok(());
    }
    let arguments = fields::<Params<'_>>(params).arguments;
    let in_body = arguments.map(|arguments| wanted.of(arguments)).unwrap_or_default();
    for name in wanted.names() {
        let shown = format!("Mcp-Param-{name}");
        let header = headers.get(&shown);
        let in_header = header.and_then(|value| decode(value.as_bytes()));
        let why = match (in_body.get(name), header) {
            (None, None) => continue,
            (Some(expected), Some(_)) if in_header.as_ref() == Some(expected) => continue,
            (Some(_), None) => format!("the header {shown} is missing"),
            (_, Some(_)) => format!("the header {shown} does not say what the body says"),
        };
        let refusal = Refusal::new(code::HEADER_MISMATCH, why);
        return Err(NotTaken(StatusCode::BAD_REQUEST, refusal));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_stand_in_headers_as_in_the_body() {
        let raw = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
        let schema = r#"{"properties":{"region":{"type":"string","x-mcp-header":"Region"},
            "count":{"type":"integer","x-mcp-header":"Count"}}}"#;
        let wanted = Headers::of_schema(&raw(schema));
        let is_taken = |given: &[(&'static str, &str)], arguments: &str| {
            let mut headers = HeaderMap::new();
            for (name, value) in given {
                headers.insert(*name, value.parse().unwrap());
            }
            let params = raw(&format!(r#"{{"arguments":{arguments}}}"#));
            super::arguments(&headers, &wanted, Some(&params)).is_ok()
        };
        let region = |value| ("mcp-param-region", value);
        for (given, arguments, taken) in [
            (vec![region("eu")], r#"{"region":"eu"}"#, true),
            (vec![region("=?base64?ZXU=?=")], r#"{"region":"eu"}"#, true),
            (vec![region("eu"), ("mcp-param-count", "3")], r#"{"region":"eu","count":3}"#, true),
            (vec![], "{}", true),
            (vec![], r#"{"region":null}"#, true),
            (vec![], r#"{"region":"eu"}"#, false),
            (vec![region("us")], r#"{"region":"eu"}"#, false),
            (vec![region("EU")], r#"{"region":"eu"}"#, false),
            (vec![region("eu")], "{}", false),
            (vec![region("=?base64?ZXU?=")], r#"{"region":"eu"}"#, false),
            (vec![region("=?base64?Z!U=?=")], "{}", false),
            (vec![region("eu")], r#"{"region":"eu","count":3}"#, false),
        ] {
            assert_eq!(is_taken(&given, arguments), taken, "{given:?} {arguments}");
        }
    }

    fn is_taken(gate: &Gate, host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        gate.check(&headers).is_ok()
    }

    #[test]
    fn a_browser_cannot_be_sent_here() {
        for (host, origin, taken) in [
            ("127.0.0.1:8000", None, true),
            ("localhost", None, true),
            ("[::1]:8000", None, true),
            ("evil.example", None, false),
            ("127.0.0.1.evil.example:8000", None, false),
            ("localhost:8000", Some("http://localhost:8000"), true),
            ("localhost:8000", Some("http://127.0.0.1:5173"), true),
            ("localhost:8000", Some("https://evil.example"), false),
            ("localhost:8000", Some("null"), false),
            ("evil.example:8000", Some("http://evil.example:8000"), false),
        ] {
            assert_eq!(is_taken(&Gate::Loopback, host, origin), taken, "{host} {origin:?}");
        }
        assert!(is_taken(&Gate::Anywhere, "tools.example", None));
        assert!(is_taken(&Gate::Anywhere, "tools.example", Some("https://tools.example")));
        assert!(!is_taken(&Gate::Anywhere, "tools.example", Some("https://evil.example")));
        assert!(!is_taken(&Gate::Anywhere, "tools.example", Some("http://localhost")));
    }
}
