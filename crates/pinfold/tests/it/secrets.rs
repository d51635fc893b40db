//! A secret in every place of a configuration where one may stand, while something goes wrong with
//! it: it is in nothing that is said, logged in any detail, or kept.

use crate::world::{World, ended};

const SECRET: &str = "s3cr3t-XYZZY-42";

/// Everything that is kept below a folder of the world, as text.
pub(crate) fn kept(world: &World, folder: &str) -> String {
    let mut all = String::new();
    let mut folders = vec![world.path(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                all.push_str(&String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()));
            }
        }
    }
    all
}

#[test]
fn a_secret_is_in_nothing_that_goes_wrong_with_it() {
    let server = |entry: &str| format!("[servers.t]\n{entry}\n");
    let client = "grant = 'client_credentials', client_id = 'me', client_secret = '${S}'";
    let cases = [
        // A program that repeats what it was given, and one that is not there.
        ("tools", server("command = 'python3'\nargs = ['FIXTURES/server.py', '--wrong=${S}']")),
        ("tools", server("command = 'sh'\nargs = ['-c', 'echo $0 >&2; exit 3', 'Bearer ${S}']")),
        (
            "tools",
            server("command = 'sh'\nargs = ['-c', 'echo $K >&2; exit 3']\nenv = { K = '${S}' }"),
        ),
        (
            "tools",
            server("command = 'sh'\nargs = ['-c', 'echo $K; sleep 1']\nenv = { K = '${S}' }"),
        ),
        ("tools", server("command = '${S}'")),
        ("tools", server("command = './${S}'")),
        // An address, wherever in it.
        ("tools", server("url = 'http://127.0.0.1:1/${S}'")),
        ("tools", server("url = 'http://127.0.0.1:1/mcp?key=${S}'")),
        ("tools", server("url = 'http://me:${S}@127.0.0.1:1/mcp'")),
        ("tools", server("url = 'http://${S}:word@127.0.0.1:1/mcp'")),
        ("tools", server("url = 'http://${S}.invalid/mcp'")),
        ("tools", server("url = '${S}'")),
        ("tools", server("url = 'http://127.0.0.1:99999/${S}'")),
        // A header, also one that cannot be sent.
        ("tools", server("url = 'http://127.0.0.1:1/mcp'\nheaders = { X = 'Bearer ${S}' }")),
        ("tools", server("url = 'http://127.0.0.1:1/mcp'\nheaders = { X = \"${S}\\n\" }")),
        ("tools", server("url = 'http://127.0.0.1:1/mcp'\nheaders = { 'X${S} ' = '${S}' }")),
        // A login.
        ("tools", server(&format!("url = 'http://127.0.0.1:1/mcp'\noauth = {{ {client} }}"))),
        ("login", server(&format!("url = 'http://127.0.0.1:1/mcp'\noauth = {{ {client} }}"))),
        ("login", server("url = 'http://127.0.0.1:1/mcp?key=${S}'")),
        ("login", server("url = 'http://127.0.0.1:1/${S}'")),
        ("login", server("url = 'http://me:${S}@127.0.0.1:1/mcp'")),
        ("login", server("url = 'http://127.0.0.1:1/mcp'\nheaders = { X = '${S}' }")),
        ("login", server("url = 'http://127.0.0.1:1/mcp'\noauth = { issuer = 'https://${S}' }")),
        ("login", server("url = 'http://127.0.0.1:1/mcp'\noauth = { issuer = '${S}' }")),
        ("login", server("url = 'http://127.0.0.1:1/mcp'\noauth = { scopes = ['a ${S}'] }")),
        (
            "login",
            server("url = 'http://127.0.0.1:1/mcp'\noauth = { client_metadata_url = '${S}' }"),
        ),
        // The database and the key.
        ("tools", "database = 'postgres://me:${S}@127.0.0.1:1/x'\n".to_owned()),
        ("tools", "database = 'postgres://me:word@127.0.0.1:1/${S}?sslmode=wrong'\n".to_owned()),
        ("tools", "database = '${S}'\n".to_owned()),
        (
            "tools",
            format!("credentials_key = '${{S}}'\n{}", server("url = 'http://127.0.0.1:1/mcp'")),
        ),
    ];
    for (command, configuration) in cases {
        let world = World::with(&configuration);
        let arguments: &[&str] = if command == "login" { &["login", "t"] } else { &["tools"] };
        let mut run = world.pinfold(arguments);
        run.env("S", SECRET).env("PINFOLD_LOG", "trace");
        let seen = ended(run);
        let all = format!("{}{}{}", seen.stdout, seen.stderr, kept(&world, "data"));
        assert!(!all.to_ascii_lowercase().contains("xyzzy"), "{configuration}: {seen:#?}");
        assert!(seen.stderr.len() > 10, "{configuration}: nothing went wrong: {seen:#?}");
    }
}

#[test]
fn a_secret_that_comes_by_an_overriding_variable_is_one_too() {
    for (name, configuration) in [
        ("PINFOLD_SERVERS__T__ENV__K", "command = 'sh'\nargs = ['-c', 'echo $k >&2; exit 3']"),
        ("PINFOLD_SERVERS__T__HEADERS__X_KEY", "url = 'http://127.0.0.1:1/mcp'"),
        ("PINFOLD_SERVERS__T__OAUTH__CLIENT_SECRET", "url = 'http://127.0.0.1:1/mcp'"),
        ("PINFOLD_CREDENTIALS_KEY", "url = 'http://127.0.0.1:1/mcp'"),
    ] {
        let world = World::with(&format!("[servers.t]\n{configuration}\n"));
        let mut run = world.pinfold(&["tools"]);
        run.env(name, SECRET).env("PINFOLD_LOG", "trace");
        let seen = ended(run);
        let all = format!("{}{}{}", seen.stdout, seen.stderr, kept(&world, "data"));
        assert!(!all.to_ascii_lowercase().contains("xyzzy"), "{name}: {seen:#?}");
    }
}

#[test]
fn a_secret_that_stands_in_the_file_itself_is_refused_where_it_is_new() {
    for (configuration, key) in [
        ("credentials_key = 's3cr3t-XYZZY-42'\n", "`credentials_key`"),
        (
            "[servers.t]\nurl = 'https://t.example'\noauth = { client_id = 'me', client_secret = 's3cr3t-XYZZY-42' }\n",
            "`servers.t.oauth.client_secret`",
        ),
    ] {
        let world = World::with(configuration);
        let seen = ended(world.pinfold(&["tools"])).code(2).says(key).says("write ${NAME}");
        assert!(!seen.stderr.contains("XYZZY"), "{seen:#?}");
    }
}
