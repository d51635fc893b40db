//! `pinfold serve`: who comes in, under which profile, and that the road behind is the same.

use serde_json::{Value, json};

use crate::client::text;
use crate::server::{Answer, Server};
use crate::world::{SERVER, World, ended, until};

/// SHA-256 of `letmein`.
const DIGEST: &str = "1c8bfe8f801d79745c4631d09fff36c82aa37fc4cce4fc946683d7b336b63032";

/// A request of 2026-07-28.
fn ask(server: &Server, path: &str, more: &[&str], method: &str, mut params: Value) -> Answer {
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    if let Value::Object(more) = params["_meta"].take() {
        meta.as_object_mut().unwrap().extend(more);
    }
    params["_meta"] = meta;
    let name = params["name"].as_str().map(|name| format!("Mcp-Name: {name}"));
    let shown = format!("Mcp-Method: {method}");
    let mut headers = vec![
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        "MCP-Protocol-Version: 2026-07-28",
        &shown,
    ];
    headers.extend(name.as_deref());
    headers.extend(more);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    server.send("POST", path, &headers, &body.to_string())
}

pub(crate) fn call(server: &Server, more: &[&str], tool: &str, arguments: Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    let answer = ask(server, "/mcp", more, "tools/call", params);
    answer.json()["result"].clone()
}

fn tools(server: &Server, path: &str, more: &[&str]) -> Vec<String> {
    let listed = ask(server, path, more, "tools/list", json!({})).json();
    let tools = listed["result"]["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn each_profile_has_its_address_and_its_rules() {
    let world = World::new(
        "[profiles.default]\nservers = ['t']\n\
         [profiles.careful]\nservers = ['t']\npermission_mode = 'read_only'\n",
    );
    let server = Server::start(&world, &[]);
    until("it is open", || (server.send("GET", "/healthz", &[], "").status == 200).then_some(()));
    assert!(tools(&server, "/mcp", &[]).contains(&"t__note".to_owned()));
    let careful = tools(&server, "/mcp/careful", &[]);
    assert!(careful.contains(&"t__echo".to_owned()) && !careful.contains(&"t__note".to_owned()));
    assert_eq!(ask(&server, "/mcp/nobody", &[], "tools/list", json!({})).status, 403);
    assert_eq!(text(&call(&server, &[], "t__echo", json!({"text": "hi"}))), "hi");
    // Elsewhere named, or sent by a page of somebody else: turned away.
    let named = ask(&server, "/mcp", &["Host: evil.example"], "tools/list", json!({}));
    assert_eq!(named.status, 403, "{named:?}");
    let sent = ask(&server, "/mcp", &["Origin: https://evil.example"], "tools/list", json!({}));
    assert_eq!(sent.status, 403);
    assert_eq!(server.send("GET", "/nothing", &[], "").status, 404);
}

#[test]
fn an_approval_belongs_to_the_session_that_asked() {
    let world = World::new("");
    let server = Server::start(&world, &[]);
    tools(&server, "/mcp", &[]);
    let mine = ["Pinfold-Session: mine"];
    let note = || json!({"text": "x"});
    let asked = call(&server, &mine, "t__note", note());
    assert_eq!(asked["isError"], true);
    let id = text(&asked).split("approve ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    ended(world.pinfold(&["approvals", "approve", &id])).code(0);
    assert!(
        text(&call(&server, &["Pinfold-Session: yours"], "t__note", note()))
            .starts_with("approval")
    );
    assert!(text(&call(&server, &[], "t__note", note())).starts_with("approval"));
    assert_eq!(text(&call(&server, &mine, "t__note", note())), "noted");
    assert_eq!(world.calls().len(), 1);
}

#[test]
fn only_a_token_comes_in_and_only_to_its_profile() {
    let world = World::with(&format!(
        "{}{SERVER}\
         [profiles.default]\nservers = ['t']\n[profiles.ops]\nservers = ['t']\n",
        format_args!(
            "auth = {{ tokens = [{{ name = 'ci', sha256 = '{DIGEST}', roles = ['agent'], profile = 'ops' }}] }}\n"
        )
    ));
    let server = Server::start(&world, &[]);
    let token = ["Authorization: Bearer letmein"];
    for wrong in [&[][..], &["Authorization: Bearer letmeout"], &["Authorization: Basic letmein"]] {
        let refused = ask(&server, "/mcp", wrong, "tools/list", json!({}));
        assert_eq!(refused.status, 401, "{refused:?}");
        assert!(refused.headers.to_lowercase().contains("www-authenticate: bearer"));
    }
    assert!(tools(&server, "/mcp", &token).contains(&"t__echo".to_owned()));
    assert!(tools(&server, "/mcp/ops", &token).contains(&"t__echo".to_owned()));
    assert_eq!(ask(&server, "/mcp/default", &token, "tools/list", json!({})).status, 403);
    // What it is told of approvals is for that profile.
    let asked = call(&server, &token, "t__note", json!({"text": "x"}));
    assert!(text(&asked).contains(" --profile ops"), "{asked:#}");
    // A page of another site has no business here, token or not.
    let sent = [token[0], "Origin: https://evil.example"];
    assert_eq!(ask(&server, "/mcp", &sent, "tools/list", json!({})).status, 403);
}

#[test]
fn an_open_address_is_refused_without_tokens() {
    let world = World::new("");
    ended(world.pinfold(&["serve", "--listen", "0.0.0.0:0"])).code(2).says("tokens");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    ended(world.pinfold(&["serve", "--listen", &address])).code(2).says(&address);
}

#[test]
fn it_ends_in_good_order() {
    let world = World::new("");
    let mut server = Server::start(&world, &[]);
    tools(&server, "/mcp", &[]);
    let killed = std::process::Command::new("kill").arg(server.child.id().to_string()).status();
    assert!(killed.unwrap().success());
    let status = until("the server ended", || server.child.try_wait().unwrap());
    assert!(status.success(), "{status}");
}

#[test]
fn who_has_no_token_learns_where_the_metadata_is_and_what_it_says_is_true() {
    let auth = format!(
        "auth = {{ tokens = [{{ name = 'ci', sha256 = '{DIGEST}', roles = ['agent'] }}] }}\n"
    );
    let world = World::with(&format!("{auth}{SERVER}[profiles.default]\nservers = ['t']\n"));
    let server = Server::start(&world, &[]);
    for (path, about) in [("/mcp", "/mcp"), ("/mcp/default", "/mcp/default"), ("/mcp/x", "/mcp/x")]
    {
        let refused = ask(&server, path, &[], "tools/list", json!({}));
        assert_eq!(refused.status, 401, "{refused:?}");
        let url = refused.headers.split("resource_metadata=\"").nth(1).unwrap();
        let url = url.split('"').next().unwrap();
        let place = url.strip_prefix(&server.url("")).unwrap_or_else(|| panic!("{url}"));
        let metadata = server.send("GET", place, &[], "");
        assert_eq!(metadata.status, 200, "{metadata:?}");
        let metadata = metadata.json();
        assert_eq!(metadata["resource"], server.url(about), "{metadata:#}");
        assert_eq!(metadata["bearer_methods_supported"], json!(["header"]));
        assert_eq!(metadata.get("authorization_servers"), None);
    }
    let whole = server.send("GET", "/.well-known/oauth-protected-resource", &[], "");
    assert_eq!(whole.json()["resource"], server.url("/mcp"));
    let wrong = ask(&server, "/mcp", &["Authorization: Bearer no"], "tools/list", json!({}));
    assert!(wrong.headers.contains("error=\"invalid_token\""), "{wrong:?}");
    // What somebody else would have it say is not repeated.
    let host = ["Host: evil\"example"];
    let refused = ask(&server, "/mcp", &host, "tools/list", json!({}));
    assert!(!refused.headers.contains("evil"), "{refused:?}");
    assert_eq!(server.send("GET", "/.well-known/oauth-protected-resource", &host, "").status, 404);

    // Without tokens nothing is protected.
    let world = World::new("");
    let server = Server::start(&world, &[]);
    assert_eq!(server.send("GET", "/.well-known/oauth-protected-resource", &[], "").status, 404);

    // Behind a proxy it is the proxy's address that counts.
    let world = World::with(&format!("public_url = 'https://p.example/'\n{auth}{SERVER}"));
    let server = Server::start(&world, &[]);
    let whole = server.send("GET", "/.well-known/oauth-protected-resource", &[], "");
    assert_eq!(whole.json()["resource"], "https://p.example/mcp");
    for wrong in ["p.example", "https://", "https://p.example/x", "https://u:s3cret@p.example"] {
        let world = World::with(&format!("public_url = '{wrong}'\n{SERVER}"));
        let refused = ended(world.pinfold(&["tools"])).code(2).says("`public_url`");
        assert!(!refused.stderr.contains("s3cret"));
    }
}
