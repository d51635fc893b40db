//! `/api/audit`: what was called, as pages or, with `format=jsonl`, all of it in lines.

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use store::{AuditFilter, AuditRow};

use super::Shared;
use super::error::Refusal;
use super::request::{Asked, page};

/// Rows that are read at once for an export.
const AT_ONCE: u32 = 500;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    session: Option<String>,
    principal: Option<String>,
    tool: Option<String>,
    outcome: Option<String>,
    /// In milliseconds since 1970.
    from_ms: Option<i64>,
    to_ms: Option<i64>,
    before: Option<String>,
    limit: Option<u32>,
    format: Option<Format>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Format {
    Json,
    Jsonl,
}

#[derive(Serialize)]
struct Page {
    rows: Vec<Row>,
    /// For `before`, if there is more.
    next: Option<String>,
}

#[derive(Serialize)]
struct Row {
    id: String,
    at_ms: i64,
    kind: String,
    principal: String,
    profile: String,
    session: String,
    tool: String,
    outcome: String,
    isolation: String,
    detail: Box<RawValue>,
}

impl From<AuditRow> for Row {
    fn from(row: AuditRow) -> Self {
        Self {
            id: row.id,
            at_ms: row.at_ms,
            kind: row.kind,
            principal: row.principal,
            profile: row.profile,
            session: row.session,
            tool: row.tool,
            outcome: row.outcome,
            isolation: row.isolation,
            detail: RawValue::from_string(row.detail).unwrap_or_default(),
        }
    }
}

/// `GET /api/audit`
pub(super) async fn list(
    State(shared): State<Shared>,
    headers: HeaderMap,
    Asked(wanted): Asked<Wanted>,
) -> Result<Response, Refusal> {
    let own = shared.caller(&headers)?.sees_only()?;
    if own.is_some() && wanted.principal.is_some() && own != wanted.principal {
        return Err(Refusal::forbidden("the rows of others take the role admin"));
    }
    let gateway = shared.gateway()?;
    let filter = AuditFilter {
        session: wanted.session,
        principal: own.or(wanted.principal),
        tool: wanted.tool,
        outcome: wanted.outcome,
        from_ms: wanted.from_ms,
        to_ms: wanted.to_ms,
        before: wanted.before,
        limit: page(wanted.limit)?,
    };
    if wanted.format == Some(Format::Jsonl) {
        if wanted.limit.is_some() {
            return Err(Refusal::wrong("format=jsonl gives all rows: leave limit out"));
        }
        let filter = AuditFilter { limit: AT_ONCE, ..filter };
        let rows = stream::try_unfold(Some(filter), move |filter| {
            let gateway = gateway.clone();
            async move {
                let Some(mut filter) = filter else { return Ok(None) };
                let rows = gateway.audit(&filter).await.map_err(std::io::Error::other)?;
                let more = rows.len() >= filter.limit as usize;
                filter.before = rows.last().map(|row| row.id.clone());
                let mut lines = Vec::new();
                for row in rows {
                    serde_json::to_writer(&mut lines, &Row::from(row))?;
                    lines.push(b'\n');
                }
                Ok::<_, std::io::Error>(Some((Bytes::from(lines), more.then_some(filter))))
            }
        });
        let mut response = Body::from_stream(rows).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
        let name = HeaderValue::from_static("attachment; filename=\"audit.jsonl\"");
        headers.insert(header::CONTENT_DISPOSITION, name);
        return Ok(response);
    }
    let rows = gateway.audit(&filter).await?;
    let next = rows.last().filter(|_| rows.len() >= filter.limit as usize);
    let next = next.map(|row| row.id.clone());
    let rows = rows.into_iter().map(Row::from).collect();
    Ok(Json(Page { rows, next }).into_response())
}
