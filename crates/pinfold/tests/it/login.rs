//! `pinfold login`, against an authorization server that nobody here wrote, which can be made to lie.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Client, text};
use crate::foreign::installed;
use crate::secrets::kept;
use crate::world::{Ended, World, ended, fixtures, until};

/// A running `oauth_server.py`.
struct Guarded {
    child: Child,
    port: u16,
    log: std::path::PathBuf,
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The server `g` and a world whose configuration has it with `more` keys, unless that cannot be.
fn guarded(more: &str) -> Option<(Guarded, World)> {
    let python = installed("venv/bin/python")?;
    let world = World::with("");
    let log = world.path("tokens.log");
    let mut child = Command::new(python)
        .arg(fixtures().join("oauth_server.py"))
        .arg(&log)
        .env("FASTMCP_SHOW_SERVER_BANNER", "false")
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let port: u16 = lines.next().unwrap().unwrap().parse().unwrap();
    let server = Guarded { child, port, log };
    until("the server answers", || {
        server
            .request("GET", "/.well-known/oauth-authorization-server", "")
            .filter(|one| one.0 == 200)
    });
    world.write("pinfold.toml", &format!("[servers.g]\nurl = '{}'\n{more}\n", server.url("/mcp")));
    Some((server, world))
}

/// Status, head and body of one request.
fn fetch(port: u16, method: &str, target: &str, body: &str) -> Option<(u16, String, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {target} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, head.to_owned(), body.to_owned()))
}

impl Guarded {
    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn request(&self, method: &str, path: &str, body: &str) -> Option<(u16, String, String)> {
        fetch(self.port, method, path, body)
    }

    /// Has the server behave differently from now on.
    fn control(&self, what: Value) {
        let answer = self.request("POST", "/control", &what.to_string()).unwrap();
        assert_eq!(answer.0, 200, "{answer:?}");
    }

    /// What the server noted, if it is about `field`.
    fn noted(&self, field: &str) -> Vec<Value> {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter_map(|line| line.get(field).cloned()).collect()
    }

    fn refreshes(&self) -> Vec<Value> {
        let mut tokens = self.noted("token");
        tokens.retain(|form| form["grant_type"] == "refresh_token");
        tokens
    }

    /// Logs in, as a person with a browser would.
    fn log_in(&self, world: &World, options: &[&str]) -> Ended {
        let arguments = [&["login", "g"], options].concat();
        browse(world.pinfold(&arguments), |_| {})
    }
}

/// Runs a login, follows the address that it prints, and waits for its end. `before` gets the
/// address first.
fn browse(mut command: Command, before: impl FnOnce(&str)) -> Ended {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut address = String::new();
    output.read_line(&mut address).unwrap();
    let address = address.trim();
    if !address.is_empty() {
        before(address);
        follow(address);
    }
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    let code = child.wait().unwrap().code();
    Ended { code, stdout: address.to_owned(), stderr, took: Duration::ZERO }
}

/// Follows an address and one redirect; where that leads, without what is behind `#`.
fn follow(address: &str) -> String {
    let (port, target) = split(address);
    let (status, head, _) = fetch(port, "GET", target, "").unwrap();
    assert_eq!(status, 302, "{head}");
    let to = head.lines().find_map(|line| line.strip_prefix("location: ")).unwrap().to_owned();
    let (port, target) = split(&to);
    fetch(port, "GET", target, "").unwrap();
    to
}

fn split(address: &str) -> (u16, &str) {
    let rest = address.strip_prefix("http://127.0.0.1:").unwrap_or_else(|| panic!("{address}"));
    let (port, _) = rest.split_once('/').unwrap();
    (port.parse().unwrap(), &rest[port.len()..])
}

/// Tokens of the fixture's, to be found nowhere.
fn leaks(text: &str) -> bool {
    text.contains("test_access_token_")
        || text.contains("test_refresh_token_")
        || text.contains("test_auth_code_")
}

#[test]
fn a_person_logs_in_and_out_again() {
    let Some((server, world)) = guarded("") else { return };
    ended(world.pinfold(&["tools"])).code(0).says("needs login: pinfold login g");
    let mut command = world.pinfold(&["login", "g"]);
    command.env("PINFOLD_LOG", "trace");
    let mut state = String::new();
    let done = browse(command, |address| {
        state = address.split("state=").nth(1).unwrap().split('&').next().unwrap().to_owned();
        assert!(address.contains("code_challenge_method=S256"), "{address}");
        assert!(address.contains("resource=http%3A%2F%2F127.0.0.1"), "{address}");
        // A stranger who guesses is turned away, and the login goes on.
        let back = address.split("redirect_uri=").nth(1).unwrap().split('&').next().unwrap();
        let back = back.replace("%3A", ":").replace("%2F", "/");
        let (port, target) = split(&back);
        let wrong = fetch(port, "GET", &format!("{target}?code=x&state=guess"), "").unwrap();
        assert_eq!(wrong.0, 400, "{wrong:?}");
    });
    let done = done.code(0).says("logged in at g").says("2 tools").says("does not belong");
    assert!(!leaks(&done.stderr) && !done.stderr.contains(&state), "{done:#?}");
    let exchange = &server.noted("token")[0];
    assert_eq!(exchange["grant_type"], "authorization_code");
    assert!(exchange["code_verifier"].as_str().unwrap().len() >= 43);
    assert_eq!(exchange["resource"], server.url("/mcp"));

    let mut command = world.pinfold(&["tools"]);
    command.env("PINFOLD_LOG", "trace");
    let listed = ended(command).code(0).prints("g__whoami");
    assert!(!leaks(&listed.stderr) && !leaks(&listed.stdout), "{listed:#?}");
    assert!(!leaks(&kept(&world, "data")), "a token is kept in the clear");
    let key = std::fs::metadata(world.path("data/credentials.key")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&key.permissions()) & 0o777, 0o600);

    ended(world.pinfold(&["logout", "g"])).code(0).says("logged out of g");
    ended(world.pinfold(&["tools"])).code(0).says("needs login: pinfold login g");
    ended(world.pinfold(&["logout", "g"])).code(0).says("nobody was logged in at g");
    ended(world.pinfold(&["login", "h"])).code(2).says("there is no server \"h\"");
}

#[test]
fn what_a_server_repeats_of_a_token_is_hidden_also_after_it_was_renewed() {
    let Some((server, world)) = guarded("") else { return };
    server.log_in(&world, &[]).code(0);
    let mut client = Client::start(&world, &[]);
    for _ in 0..2 {
        let said = client.call("g__whoami", &json!({}));
        let said = text(&said);
        assert!(said.contains("authorization") && said.contains("***"), "{said}");
        assert!(!leaks(said), "{said}");
        // Its clock says that the token is good, but the server has forgotten it.
        server.control(json!({"revoke": true}));
    }
    assert_eq!(server.refreshes().len(), 1);
    let audit = kept(&world, "data");
    assert!(audit.contains("g__whoami") && !leaks(&audit));
    client.close();
}

#[test]
fn a_token_that_expires_is_renewed_once_between_many_calls() {
    let Some((server, world)) = guarded("") else { return };
    server.control(json!({"life": 4}));
    server.log_in(&world, &[]).code(0);
    let mut client = Client::start(&world, &[]);
    assert_eq!(text(&client.call("g__add", &json!({"a": 1, "b": 1}))), "2");
    let before = server.refreshes().len();
    server.control(json!({"revoke": true, "life": 3600, "delay": 0.5}));
    let ids: Vec<u64> = (0..20)
        .map(|n| {
            let call = json!({"name": "g__add", "arguments": {"a": n, "b": 1}});
            client.begin("tools/call", call)
        })
        .collect();
    for (n, id) in ids.into_iter().enumerate() {
        assert_eq!(text(&client.result(id)), (n + 1).to_string());
    }
    let renewed = server.refreshes();
    assert_eq!(renewed.len(), before + 1, "{renewed:#?}");
    assert_eq!(renewed[before]["resource"], server.url("/mcp"));
    client.close();
    // The new one is what the next process uses.
    let mut client = Client::start(&world, &[]);
    assert_eq!(text(&client.call("g__add", &json!({"a": 2, "b": 2}))), "4");
    assert_eq!(server.refreshes().len(), before + 1);
    client.close();
}

#[test]
fn of_two_processes_one_renews() {
    let Some((server, world)) = guarded("") else { return };
    server.log_in(&world, &[]).code(0);
    let mut clients: Vec<Client> = (0..3).map(|_| Client::start(&world, &[])).collect();
    for client in &mut clients {
        assert_eq!(text(&client.call("g__add", &json!({"a": 1, "b": 1}))), "2");
    }
    for round in 1..4 {
        server.control(json!({"revoke": true, "delay": 0.3}));
        let ids: Vec<u64> = clients
            .iter_mut()
            .map(|client| {
                let call = json!({"name": "g__add", "arguments": {"a": round, "b": 1}});
                client.begin("tools/call", call)
            })
            .collect();
        for (client, id) in clients.iter_mut().zip(ids) {
            assert_eq!(text(&client.result(id)), (round + 1).to_string());
        }
        assert_eq!(server.refreshes().len(), round, "round {round}");
    }
    // No refresh token was used twice.
    let used: Vec<Value> =
        server.refreshes().iter().map(|one| one["refresh_token"].clone()).collect();
    let mut distinct: Vec<String> = used.iter().map(ToString::to_string).collect();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), used.len());
}

#[test]
fn a_refresh_that_is_refused_says_who_has_to_do_what_and_a_new_login_is_noticed() {
    let Some((server, world)) = guarded("") else { return };
    server.log_in(&world, &[]).code(0);
    let mut client = Client::start(&world, &[]);
    assert_eq!(text(&client.call("g__add", &json!({"a": 1, "b": 1}))), "2");
    let refusal = json!({"status": 400, "body": "{\"error\": \"invalid_grant\"}"});
    server.control(json!({"revoke": true, "answers": {"/token": refusal}}));
    let refused = client.call("g__add", &json!({"a": 1, "b": 1}));
    assert_eq!(refused["isError"], true, "{refused:#}");
    assert!(text(&refused).contains("needs login: pinfold login g"), "{refused:#}");
    assert!(client.tools().contains(&"g__add".to_owned()), "its tools are no longer listed");
    let count = server.refreshes().len();
    let again = client.call("g__add", &json!({"a": 1, "b": 1}));
    assert!(text(&again).contains("needs login: pinfold login g"), "{again:#}");
    ended(world.pinfold(&["tools"]))
        .code(0)
        .says("needs login: pinfold login g")
        .says("invalid_grant");
    ended(world.pinfold(&["doctor"])).prints("needs login: pinfold login g");
    assert_eq!(server.refreshes().len(), count, "a refused refresh token was sent again");

    server.control(json!({"answers": {}}));
    server.log_in(&world, &[]).code(0);
    let answer = until("the new login is noticed", || {
        let answer = client.call("g__add", &json!({"a": 1, "b": 1}));
        (answer["isError"] != true).then_some(answer)
    });
    assert_eq!(text(&answer), "2");
    client.close();
}

#[test]
fn rights_that_are_missing_are_named_with_the_command_that_asks_for_them() {
    let Some((server, world)) = guarded("") else { return };
    server.log_in(&world, &[]).code(0);
    server.control(json!({"scope": "write"}));
    let mut client = Client::start(&world, &[]);
    let refused = client.call("g__add", &json!({"a": 1, "b": 1}));
    assert!(text(&refused).contains("pinfold login g") && text(&refused).contains("--scope=write"));
    // What would do something in a shell is not put into a command.
    server.control(json!({"scope": "write;reboot"}));
    let refused = client.call("g__add", &json!({"a": 1, "b": 1}));
    assert!(!text(&refused).contains("reboot"), "{refused:#}");
    client.close();
    server.control(json!({"scope": null}));
    server.log_in(&world, &["--scope=write"]).code(0).says("write").says("read");
}

#[test]
fn an_answer_from_another_issuer_is_refused() {
    let Some((server, world)) = guarded("") else { return };
    server.control(json!({"callback": {"iss": "https://evil.example"}}));
    server.log_in(&world, &[]).code(1).says("evil.example").says("not trusted");
    server.control(json!({"callback": {"error": "access_denied", "code": ""}}));
    server.log_in(&world, &[]).code(1).says("access_denied");
    assert_eq!(server.noted("token").len(), 0, "a code was sent");
    ended(world.pinfold(&["tools"])).code(0).says("needs login");
}

#[test]
fn metadata_that_lies_is_not_followed() {
    let resource = "/.well-known/oauth-protected-resource/mcp";
    let issuer = "/.well-known/oauth-authorization-server";
    let document = |value: Value| json!({"body": value.to_string()});
    let Some((server, world)) = guarded("") else { return };
    let cases = [
        // About somebody else, named by the server and found by guessing.
        (
            json!({resource: document(json!({"resource": "https://bank.example/mcp", "authorization_servers": ["HERE/"]}))}),
            "another resource (https://bank.example)",
        ),
        (
            json!({resource: document(json!({"resource": "HERE/mcp", "authorization_servers": ["http://169.254.169.254/latest"]}))}),
            "169.254.169.254",
        ),
        (
            json!({resource: document(json!({"resource": "HERE/mcp", "authorization_servers": ["https://10.0.0.1/"]}))}),
            "10.0.0.1",
        ),
        // One that stands on another's feet.
        (
            json!({issuer: document(json!({"issuer": "https://bank.example/", "authorization_endpoint": "HERE/authorize", "token_endpoint": "HERE/token", "code_challenge_methods_supported": ["S256"]}))}),
            "bank.example",
        ),
        // The refresh token would go to the cloud's metadata service, the browser anywhere.
        (
            json!({issuer: document(json!({"issuer": "HERE/", "authorization_endpoint": "HERE/authorize", "token_endpoint": "http://169.254.169.254/token", "code_challenge_methods_supported": ["S256"]}))}),
            "169.254.169.254 is not https",
        ),
        (
            json!({issuer: document(json!({"issuer": "HERE/", "authorization_endpoint": "javascript:alert(1)", "token_endpoint": "HERE/token", "code_challenge_methods_supported": ["S256"]}))}),
            "is not https",
        ),
        (
            json!({issuer: document(json!({"issuer": "HERE/", "authorization_endpoint": "HERE/authorize", "token_endpoint": "HERE/token"}))}),
            "does not say that it does PKCE",
        ),
        (
            json!({issuer: document(json!({"issuer": "HERE/", "authorization_endpoint": "HERE/authorize", "token_endpoint": "HERE/token", "code_challenge_methods_supported": ["plain"]}))}),
            "PKCE",
        ),
        (json!({resource: {"huge": 10_000_000}}), "longer than"),
        (json!({issuer: {"huge": 10_000_000}}), "longer than"),
        (
            json!({resource: {"status": 302, "headers": {"location": "https://bank.example/"}}}),
            "bank.example",
        ),
        (json!({issuer: {"body": "[[[[["}}), "of no use"),
        (json!({"/register": {"status": 403, "body": "<script>no</script>"}}), "`client_id`"),
        (json!({"/register": {"body": "{\"client_id\": 7}"}}), "`client_id`"),
    ];
    for (answers, expected) in cases {
        server.control(json!({"answers": answers}));
        let done = server.log_in(&world, &[]);
        assert_eq!(done.code, Some(1), "{answers}: {done:#?}");
        assert!(done.stderr.contains(expected), "{answers}: {done:#?}");
        assert!(
            done.stdout.is_empty() && !done.stderr.contains("<script>"),
            "{answers}: {done:#?}"
        );
    }
    assert_eq!(server.noted("token").len(), 0, "a code was sent");
}

#[test]
fn a_server_that_only_says_no_is_told_from_one_that_wants_a_login() {
    let Some((server, world)) = guarded("") else { return };
    let no = json!({"status": 401});
    let none = json!({"status": 404});
    server.control(json!({"answers": {
        "/mcp": no,
        "/.well-known/oauth-protected-resource/mcp": none,
        "/.well-known/oauth-protected-resource": none,
        "/mcp/.well-known/oauth-protected-resource": none,
        "/.well-known/oauth-authorization-server": none,
        "/.well-known/oauth-authorization-server/mcp": none,
        "/.well-known/openid-configuration": none,
        "/.well-known/openid-configuration/mcp": none,
        "/mcp/.well-known/openid-configuration": none,
        "/register": none,
    }}));
    ended(world.pinfold(&["tools"])).code(0).says("a token in its `headers`");
    server.log_in(&world, &[]).code(1).says("`client_id`");
}
