//! The server side: the suites' clients, `pinfold serve`, and behind it a server on the official
//! SDK that offers what the suites ask for, in each era.

use super::{NEWER_OF_2025, OF_2025, OF_2026, Suite, may_fail};
use crate::foreign::installed;
use crate::server::Server;
use crate::world::{World, test_tools};

/// Runs a suite against the gateway. With `--older` the server behind it speaks no 2026-07-28.
fn serves(suite: Suite, options: &[&str], list: &str) {
    let Some(node) = installed("node_modules/node/bin/node") else { return };
    let arguments = [&["FIXTURES/conformance/server.mjs"], options].concat();
    let world = World::with(&format!(
        "[servers.fixture]\ncommand = {:?}\nargs = {arguments:?}\nprefix = ''\n\
         env = {{ PINFOLD_TEST_TOOLS = {:?} }}\n\
         [profiles.default]\nservers = ['fixture']\npermission_mode = 'auto'\n",
        node.display().to_string(),
        test_tools().canonicalize().unwrap().display().to_string(),
    ));
    let server = Server::start(&world, &[]);
    let (url, results) = (server.url("/mcp"), world.path("results"));
    let (list, results) = (may_fail(list), results.display().to_string());
    let list = list.display().to_string();
    let options = ["--expected-failures", &list, "--output-dir", &results];
    let arguments = [&["server", "--url", &url, "--suite", "all"], &options[..]].concat();
    let Some(ended) = suite.run(&arguments) else { return };
    let summary = ended.stdout.rfind("=== SUMMARY").unwrap_or_default();
    assert_eq!(ended.code, Some(0), "{}\n{}", &ended.stdout[summary..], ended.stderr);
}

#[test]
fn clients_of_2025_with_a_server_of_2026() {
    serves(OF_2025, &[], "server-2025");
}

#[test]
fn clients_of_2025_with_a_server_of_2025() {
    serves(OF_2025, &["--older"], "server-2025");
}

#[test]
fn clients_of_2025_in_the_newer_suite_with_a_server_of_2026() {
    serves(NEWER_OF_2025, &[], "server-2025-newer");
}

#[test]
fn clients_of_2025_in_the_newer_suite_with_a_server_of_2025() {
    serves(NEWER_OF_2025, &["--older"], "server-2025-newer");
}

#[test]
fn clients_of_2026_with_a_server_of_2026() {
    serves(OF_2026, &[], "server-2026");
}

#[test]
fn clients_of_2026_with_a_server_of_2025() {
    serves(OF_2026, &["--older"], "server-2026-older");
}
