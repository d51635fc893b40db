//! The approval page: for the person alone, safe to look at, and working without scripts.

use serde_json::json;

use crate::api::{approval, key, ready, started, with_tokens};
use crate::client::text;
use crate::http::call;
use crate::server::{Answer, Server};
use crate::world::World;

/// Fills a form in, as a browser that is on a page of ours.
fn fill(server: &Server, path: &str, headers: &[&str], form: &str) -> Answer {
    let origin = format!("Origin: {}", server.url(""));
    let mut all = vec!["Content-Type: application/x-www-form-urlencoded"];
    if !headers.iter().any(|header| header.starts_with("Origin")) {
        all.push(&origin);
    }
    all.extend(headers);
    server.send("POST", path, &all, form)
}

/// The cookie that an answer sets.
fn cookie(answer: &Answer) -> String {
    let line = answer.headers.lines().find(|line| line.to_lowercase().starts_with("set-cookie:"));
    let line = line.unwrap_or_else(|| panic!("no cookie: {answer:#?}"));
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(line.contains(part), "{line}");
    }
    let value = line.split_once(": ").unwrap().1.split(';').next().unwrap();
    format!("Cookie: {value}")
}

fn secret(world: &World) -> String {
    key(world).rsplit(' ').next().unwrap().to_owned()
}

/// What a form of the page has to hold.
fn form_key(page: &Answer) -> String {
    let rest = page.body.split("name=\"key\" value=\"").nth(1);
    rest.unwrap_or_else(|| panic!("no form: {page:#?}")).split('"').next().unwrap().to_owned()
}

#[test]
fn only_the_person_comes_in() {
    let world = World::new("");
    let server = started(&world, &[]);
    let id = approval(&call(&server, &[], "t__note", json!({"text": "x"})));
    let path = format!("/approvals/{id}");
    let outside = server.send("GET", &path, &[], "");
    assert_eq!(outside.status, 401);
    assert!(outside.body.contains("person.key") && !outside.body.contains("t__note"));
    for wrong in ["", "0000", "%00", "p3rson"] {
        let tried = fill(&server, "/approvals/enter", &[], &format!("code={wrong}&to={path}"));
        assert_eq!(tried.status, 401, "{wrong}");
        assert!(!tried.headers.to_lowercase().contains("set-cookie"));
    }
    let linked = server.send("GET", &format!("{path}?code={}", secret(&world)), &[], "");
    assert_eq!(linked.status, 303, "{linked:#?}");
    assert!(linked.headers.contains(&format!("location: {path}\r")), "the key stays in no address");
    let cookie = cookie(&linked);
    assert_eq!(server.send("GET", &path, &[&cookie], "").status, 200);
    assert_eq!(server.send("GET", &path, &["Cookie: pinfold=guessed"], "").status, 401);
    // It leads on to pages of ours only.
    let code = secret(&world);
    let led = fill(&server, "/approvals/enter", &[], &format!("code={code}&to=//evil.example"));
    assert!(led.headers.contains("location: /approvals\r"), "{led:#?}");
    // Guessing is slowed down.
    let tried = |_| fill(&server, "/approvals/enter", &[], "code=x&to=/approvals").status;
    let statuses: Vec<u16> = (0..30).map(tried).collect();
    assert_eq!(statuses.last(), Some(&429));
}

#[test]
fn a_person_answers_without_scripts_and_a_foreign_page_cannot() {
    let world = World::new("");
    let server = started(&world, &[]);
    let ask = |text: &str| call(&server, &[], "t__note", json!({"text": text}));
    let id = approval(&ask("<script>alert('x')</script>\u{202e}"));
    let path = format!("/approvals/{id}");
    let cookie =
        cookie(&server.send("GET", &format!("/approvals?code={}", secret(&world)), &[], ""));
    let page = server.send("GET", &path, &[&cookie], "");
    assert!(
        page.body.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;\\u{202e}"),
        "{page:#?}"
    );
    assert!(!page.body.contains("<script>"));
    assert!(page.body.contains("class=\"effect write\""));
    let headers = page.headers.to_lowercase();
    for part in [
        "x-frame-options: deny",
        "frame-ancestors 'none'",
        "default-src 'none'",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
    ] {
        assert!(headers.contains(part), "{headers}");
    }
    let listed = server.send("GET", "/approvals", &[&cookie], "");
    assert!(listed.body.contains(&format!("href=\"{path}\"")));

    let form = form_key(&page);
    let once = |key: &str| format!("decision=once&key={key}");
    for (headers, form) in [
        (vec![cookie.as_str()], "decision=once".to_owned()),
        (vec![cookie.as_str()], once("guessed")),
        (vec![cookie.as_str(), "Origin: https://evil.example"], once(&form)),
        (vec![cookie.as_str(), "Origin: null"], once(&form)),
        (vec![cookie.as_str(), "Origin: http://127.0.0.1:1"], once(&form)),
    ] {
        assert_eq!(fill(&server, &path, &headers, &form).status, 403, "{headers:?} {form}");
    }
    assert_eq!(fill(&server, &path, &[], &once(&form)).status, 401);
    // The API takes a browser's word only from a page of this address.
    let json = json!({"decision": "once"}).to_string();
    let kind = "Content-Type: application/json";
    let api = server.send("POST", &format!("/api{path}"), &[&cookie, kind], &json);
    assert_eq!(api.status, 403);
    assert!(world.calls().is_empty());

    let done = fill(&server, &path, &[&cookie], &once(&form));
    assert_eq!(done.status, 303, "{done:#?}");
    let page = server.send("GET", &path, &[&cookie], "");
    assert!(page.body.contains("allowed once by the person with the key (web)"), "{page:#?}");
    assert!(!page.body.contains("<form"));
    // Too late, and it says who was first.
    let late = fill(&server, &path, &[&cookie], &format!("decision=deny&reason=no&key={form}"));
    assert_eq!(late.status, 409);
    assert!(late.body.contains("answered already: the person with the key (web) allowed it"));
    assert_eq!(text(&ask("<script>alert('x')</script>\u{202e}")), "noted");
    let state = server.send("GET", &format!("{path}/state"), &[&cookie], "");
    assert_eq!(state.body, "used");

    let id = approval(&ask("again"));
    let path = format!("/approvals/{id}");
    let denied = fill(
        &server,
        &path,
        &[&cookie],
        &format!("decision=deny&reason=+too+%3Clate%3E&key={form}"),
    );
    assert_eq!(denied.status, 303);
    assert!(text(&ask("again")).contains("did not allow it: too <late>"));
}

#[test]
fn with_tokens_the_page_takes_those_that_may_answer() {
    let world = with_tokens("");
    let server = Server::start(&world, &[]);
    let agent = "Authorization: Bearer agentkey";
    ready(&server, agent);
    let id = approval(&call(&server, &[agent], "t__note", json!({"text": "x"})));
    let path = format!("/approvals/{id}");
    let enter =
        |secret: &str| fill(&server, "/approvals/enter", &[], &format!("code={secret}&to={path}"));
    assert_eq!(enter(&secret(&world)).status, 401, "the key counts only where there are no tokens");
    let seen = server.send("GET", &path, &[&cookie(&enter("agentkey"))], "");
    assert_eq!(seen.status, 200);
    assert!(seen.body.contains("cannot answer approvals") && !seen.body.contains("<form"));
    let approver = cookie(&enter("approverkey"));
    let form = form_key(&server.send("GET", &path, &[&approver], ""));
    let done = fill(&server, &path, &[&approver], &format!("decision=session&key={form}"));
    assert_eq!(done.status, 303, "{done:#?}");
    for text_of in ["x", "y"] {
        let result = call(&server, &[agent], "t__note", json!({"text": text_of}));
        assert_eq!(text(&result), "noted");
    }
}
