use std::path::Path;

use super::file::File;
use super::*;

fn explained(text: &str) -> String {
    let document = Document::new(Path::new("p.toml"), text.to_owned());
    document.explain(&toml::from_str::<File>(text).unwrap_err()).to_string()
}

#[test]
fn the_commented_default_file_says_the_defaults() {
    let mut written: File = toml::from_str(DEFAULT).unwrap();
    assert_eq!(written.database.take().as_deref(), Some("sqlite://data/pinfold.db"));
    assert_eq!(written, File::default());
}

#[test]
fn every_key_of_the_file_stands_in_the_commented_default() {
    // An unknown key makes the deserializer name all known ones of that table.
    for table in [
        "",
        "limits",
        "scripts",
        "execute",
        "execute.default_packages",
        "execute.network",
        "background_calls",
        "approvals",
        "auth",
        "servers.x",
        "profiles.x",
        "profiles.x.workspace",
        "profiles.x.features",
        "profiles.x.permissions",
    ] {
        let head = if table.is_empty() { String::new() } else { format!("[{table}]\n") };
        let error = toml::from_str::<File>(&format!("{head}zzz = 1")).unwrap_err().to_string();
        let known: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
        assert!(!known.is_empty(), "{table}: {error}");
        for key in known {
            assert!(DEFAULT.contains(key), "{table}.{key} is not in default.toml");
        }
    }
}

#[test]
fn a_fault_names_file_line_and_key_and_what_would_be_right() {
    for (text, expected) in [
        ("\nlissten = 1", "p.toml:2: unknown key `lissten`; did you mean `listen`?"),
        (
            "[scripts]\nmax_cals = 3",
            "p.toml:2: unknown key `max_cals`; did you mean `max_calls`? in [scripts]",
        ),
        (
            "[servers.a]\ncommnd = 'x'",
            "p.toml:2: unknown key `commnd`; did you mean `command`? in [servers.a]",
        ),
        (
            "[scripts]\n\nmax_calls = 'many'",
            "p.toml:3: `scripts.max_calls` is a string that does not fit: expected a whole number, not negative",
        ),
        (
            "[scripts]\nmax_calls = -1",
            "p.toml:2: `scripts.max_calls` is an integer that does not fit: expected a whole number, not negative",
        ),
        (
            "[profiles.x]\npermission_mode = 'aks'",
            "p.toml:2: `profiles.x.permission_mode` cannot be \"aks\"; it is one of \"ask\", \"auto\", \"read_only\"; did you mean `ask`?",
        ),
        ("scripts = 5", "p.toml:1: `scripts` is an integer that does not fit: expected a table"),
        ("listen = 'here'", "p.toml:1: `listen` is not an address such as \"127.0.0.1:8000\""),
        (
            "[scripts]\nmax_calls = 1\nmax_calls = 2",
            "p.toml:3: `max_calls` stands here for the second time",
        ),
    ] {
        assert_eq!(explained(text), expected);
    }
}

#[test]
fn a_fault_never_shows_a_value() {
    for text in [
        "[servers.a]\nheaders = 'Bearer s3cret'",
        "[servers.a]\nenv = { TOKEN = 4242424242 }",
        "[servers.a]\nargs = 's3cret'",
    ] {
        let message = explained(text);
        assert!(!message.contains("s3cret") && !message.contains("4242"), "{message}");
        assert!(message.contains("p.toml:2: `servers.a."), "{message}");
    }
}

#[test]
fn faults_of_other_crates_get_their_line() {
    let text = "[scripts]\nmax_calls = 0\n[profiles.x]\npermissions = { deny = ['Nope(x)'] }\n";
    let document = Document::new(Path::new("p.toml"), text.to_owned());
    let file: File = toml::from_str(text).unwrap();
    let fault = document.fault(&[], &file.scripts.validate().unwrap_err()).to_string();
    assert!(fault.starts_with("p.toml:2: scripts.max_calls = 0 is out of bounds"), "{fault}");
    let fault = file.profiles["x"].validate().unwrap_err();
    let fault = document.fault(&["profiles", "x"], &fault).to_string();
    assert!(fault.starts_with("p.toml:4: profiles.x.permissions.deny:"), "{fault}");
}

#[test]
fn overrides_reach_keys_and_their_faults_are_the_variables() {
    let lay = |name: &str, value: &str| {
        let variables = [(name.to_owned(), value.to_owned())];
        let overrides = overrides::collect(variables.into_iter(), &["PINFOLD_USED".to_owned()]);
        let table = overrides::apply(toml::Table::new(), &overrides, &|table| {
            File::deserialize(table.clone()).map(|_: File| ())
        });
        table.map(|table| File::deserialize(table).unwrap()).map_err(|error| error.to_string())
    };
    assert_eq!(lay("PINFOLD_LISTEN", "127.0.0.1:9").unwrap().listen.port(), 9);
    assert_eq!(lay("PINFOLD_SCRIPTS__MAX_CALLS", "7").unwrap().scripts.max_calls, 7);
    // What would be a number where a string is wanted is a string.
    let file = lay("PINFOLD_SERVERS__A__COMMAND", "7").unwrap();
    assert_eq!(file.servers["a"].command.as_deref(), Some("7"));
    let file = lay("PINFOLD_SERVERS__A__ARGS", "['x', 'y']").unwrap();
    assert_eq!(file.servers["a"].args, ["x", "y"]);
    for ignored in ["PINFOLD_CONFIG", "PINFOLD_LOG", "PINFOLD_TEST_REQUIRE", "PINFOLD_USED", "PATH"]
    {
        assert_eq!(lay(ignored, "x").unwrap(), File::default());
    }
    assert_eq!(
        lay("PINFOLD_SCRIPTS__MAX_CALLS", "many").unwrap_err(),
        "PINFOLD_SCRIPTS__MAX_CALLS: `scripts.max_calls` is a string that does not fit: expected a whole number, not negative"
    );
    assert_eq!(
        lay("PINFOLD_LISTN", "x").unwrap_err(),
        "PINFOLD_LISTN: names no key: there is no `listn`; did you mean `listen`?"
    );
}

#[test]
fn every_example_loads() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut seen = 0;
    for case in std::fs::read_dir(examples).unwrap() {
        let path = case.unwrap().path().join("pinfold.toml");
        let config = read(&path, Chosen::ByPerson).unwrap_or_else(|error| panic!("{error:#}"));
        for name in config.file.profiles.keys() {
            for server in &config.profile(name).unwrap().servers {
                config.endpoint(server).unwrap();
            }
        }
        seen += 1;
    }
    assert!(seen >= 2);
}

#[test]
fn paths_start_at_the_file_and_not_at_the_working_directory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pinfold.toml");
    std::fs::write(
        folder.path().join("servers.json"),
        r#"{"mcpServers": {"b": {"command": "./b.py"}, "a": {"command": "other"}}}"#,
    )
    .unwrap();
    std::fs::write(
        &path,
        "data_dir = 'd'\ndatabase = 'sqlite://x.db'\nmcp_config = 'servers.json'\n\
         [servers.a]\ncommand = 'bin/a'\ncwd = 'sub'\n[servers.p]\ncommand = 'p'\n",
    )
    .unwrap();
    let config = read(&path, Chosen::ByPerson).unwrap();
    let top = folder.path().display();
    assert_eq!(config.file.data_dir, folder.path().join("d"));
    assert_eq!(config.database, format!("sqlite://{top}/x.db"));
    let command = |name: &str| match config.endpoint(name).unwrap() {
        mcp::Endpoint::Stdio { command, cwd, .. } => (command, cwd),
        mcp::Endpoint::Http { .. } => panic!("{name} is a program"),
    };
    assert_eq!(command("a"), (format!("{top}/bin/a"), Some(folder.path().join("sub"))));
    assert_eq!(command("b"), (format!("{top}/./b.py"), None));
    assert_eq!(command("p"), ("p".to_owned(), None));
    assert_eq!(config.profile("default").unwrap().servers, ["a", "b", "p"]);
    let unknown = config.profile("defualt").unwrap_err().to_string();
    assert!(unknown.ends_with("has no profile \"defualt\"; did you mean `default`?"), "{unknown}");
}

#[test]
fn a_missing_secret_is_named_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pinfold.toml");
    std::fs::write(
        &path,
        "\n[servers.t]\nurl = 'https://t.example'\nheaders = { A = 'Bearer ${PINFOLD_NOT_SET_ANYWHERE}' }\n",
    )
    .unwrap();
    let config = read(&path, Chosen::ByPerson).unwrap();
    let error = config.endpoint("t").unwrap_err().to_string();
    assert!(
        error.contains(
            "pinfold.toml:2: `servers.t` needs the environment variable PINFOLD_NOT_SET_ANYWHERE"
        ),
        "{error}"
    );
}

#[test]
fn a_configuration_that_would_open_the_host_to_others_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pinfold.toml");
    let fault = |text: &str| {
        std::fs::write(&path, text).unwrap();
        read(&path, Chosen::ByPerson).unwrap_err().to_string()
    };
    assert!(fault("listen = '0.0.0.0:80'").contains("pinfold.toml:1: `listen` is not a loopback"));
    assert!(fault("[profiles.x]\nservers = ['flet']\n[servers.fleet]\ncommand='a'")
        .contains("pinfold.toml:2: `profiles.x.servers` names the server \"flet\", which is not configured; did you mean `fleet`?"));
    let token = "[auth]\ntokens = [{ name = 'ci', sha256 = 'zz', roles = ['agent'] }]";
    assert!(fault(token).contains("is not 64 hexadecimal digits"));
}

#[test]
fn a_workspace_apart_from_what_pinfold_writes_is_fine_and_any_other_is_not() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("work/deep")).unwrap();
    std::os::unix::fs::symlink("work", folder.path().join("link")).unwrap();
    let path = folder.path().join("pinfold.toml");
    let read = |data: &str, database: &str, workspace: &str| {
        let text = format!(
            "data_dir = '{data}'\ndatabase = '{database}'\n\
             [profiles.x]\npermission_mode = 'read_only'\nworkspace = {{ path = '{workspace}' }}\n"
        );
        std::fs::write(&path, text).unwrap();
        read(&path, Chosen::ByPerson).map(|_| ()).map_err(|error| error.to_string())
    };
    let elsewhere = "postgres://host/name";
    read("data", elsewhere, "work").unwrap();
    read("work2", "sqlite://work2/p.db", "work").unwrap();
    for (data, database, workspace, key) in [
        ("data", elsewhere, ".", "data_dir"),
        ("work/data", elsewhere, "link", "data_dir"),
        ("link/deep/not/yet", elsewhere, "work", "data_dir"),
        ("data", elsewhere, "data/workspaces", "data_dir"),
        ("data", "sqlite://work/p.db", "link", "database"),
        ("data", "sqlite://link/p.db?mode=rwc", "work", "database"),
    ] {
        let fault = read(data, database, workspace).unwrap_err();
        assert!(
            fault.contains("pinfold.toml:5: `profiles.x.workspace` has scripts work"),
            "{fault}"
        );
        assert!(fault.contains(&format!("could change {key}")), "{fault}");
    }
}

#[test]
fn every_server_is_given_all_secrets_and_no_plain_value() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pinfold.toml");
    // Variables that cargo sets for every test: a test may not set its own, other threads read.
    std::fs::write(
        &path,
        "[servers.a]\ncommand = 'a'\nenv = { T = 'x-${CARGO_PKG_DESCRIPTION}', R = 'eu-central-1' }\n\
         [servers.b]\nurl = 'https://b.example'\nheaders = { A = 'Bearer ${CARGO_PKG_NAME}-' }\n\
         [servers.c]\ncommand = 'c'\nargs = ['${PINFOLD_NOT_SET_ANYWHERE}', '${CARGO_MANIFEST_DIR}']\n",
    )
    .unwrap();
    let config = read(&path, Chosen::ByPerson).unwrap();
    let expected = mcp::Secrets::new([env!("CARGO_PKG_DESCRIPTION")]);
    for name in ["a", "b"] {
        let endpoint = config.endpoint(name).unwrap();
        let (mcp::Endpoint::Stdio { secrets, .. } | mcp::Endpoint::Http { secrets, .. }) = endpoint;
        assert_eq!(secrets, expected, "{name}");
        assert_ne!(secrets, mcp::Secrets::default());
    }
}
