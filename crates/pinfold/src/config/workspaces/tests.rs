use std::os::unix::fs::symlink;

use super::*;
use crate::config::diagnose::Document;
use crate::config::import;

/// A host of a test's own: a home, a project in it, tools outside.
struct Place {
    folder: tempfile::TempDir,
    host: Host,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        for path in [
            "home/.ssh/x",
            "home/proj/deep/x",
            "home/proj/server.py",
            "home/proj/pkg/__main__.py",
            "home/proj/bin/tool",
            "home/proj/.venv/bin/python",
            "home/proj/.venv/pyvenv.cfg",
            "home/proj/lib/m.py",
            "home/proj/mcp.json",
            "home/proj/sub/x",
            "home/other/x",
            "tools/server.py",
            "tools/venv/bin/python",
            "tools/bin/pinfold",
            "data/workspaces/s/a.py",
        ] {
            let path = top.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let base = format!("home = {}/home/proj/bin\n", top.display());
        std::fs::write(top.join("tools/venv/pyvenv.cfg"), base).unwrap();
        symlink("home/proj", top.join("link")).unwrap();
        symlink("../../tools", top.join("home/proj/out")).unwrap();
        symlink("../home/proj/server.py", top.join("tools/in.py")).unwrap();
        symlink("../home/proj/.venv", top.join("tools/env")).unwrap();
        let host = Host {
            homes: vec![top.join("home")],
            configuration: Some(top.join("home/.config/pinfold")),
            state: Some(top.join("state/pinfold")),
            executable: Some(top.join("tools/bin/pinfold")),
            directory: top.clone(),
            path: "/usr/bin:/bin".into(),
            interpreters: Vec::new(),
            temporary: "/tmp".into(),
        };
        Self { folder, host }
    }

    fn top(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    /// Checks a configuration that lies at the top; `TOP` in it is this folder. With `import`, a
    /// `.mcp.json` as well.
    fn check(&self, text: &str, import: Option<&str>) -> Result<(), String> {
        let top = self.top();
        let text = text.replace("TOP", &top.display().to_string());
        let own = Document::new(&top.join("pinfold.toml"), text.clone());
        let mut file: File = toml::from_str(&text).unwrap();
        let (mut imported, mut names) = (None, Vec::new());
        if let Some(text) = import {
            let (servers, _) = import::servers(text).unwrap();
            names.extend(servers.keys().cloned());
            file.servers.extend(servers);
            imported = Some(Document::new(&top.join("tools/.mcp.json"), text.to_owned()));
        }
        file.data_dir = top.join(file.data_dir);
        for profile in file.profiles.values_mut() {
            profile.workspace.path = profile.workspace.path.take().map(|path| top.join(path));
        }
        if file.execute.python.contains('/') {
            file.execute.python = top.join(&file.execute.python).display().to_string();
        }
        let documents = Documents { own, imported, imported_servers: names, left_out: Vec::new() };
        check(&file, "postgres://h/n", &documents, &self.host).map_err(|error| error.to_string())
    }

    /// With a workspace in the project and one server.
    fn server(&self, entry: &str) -> Result<(), String> {
        self.check(
            &format!(
                "[profiles.x]\nservers = ['s']\nworkspace = {{ path = 'home/proj' }}\n\
                 [servers.s]\n{entry}\n"
            ),
            None,
        )
    }
}

#[track_caller]
fn refused(case: &str, result: Result<(), String>, expected: &str) {
    let fault = result.expect_err(&format!("{case} was accepted"));
    assert!(fault.contains(expected), "{case}: {fault}");
}

#[test]
fn nothing_that_a_script_can_write_is_run_on_the_host() {
    let place = Place::new();
    const REMEDY: &str = "add `runs_from_workspace = true` to [servers.s]";
    for (entry, expected) in [
        ("command = 'home/proj/bin/tool'", "has its program"),
        ("command = 'link/bin/tool'", "has its program"),
        ("command = 'home/proj/out/server.py'", "has its program"),
        ("command = 'python3'\nargs = ['-u', 'home/proj/server.py']", "its argument 2"),
        ("command = 'python3'\nargs = ['server.py']\ncwd = 'home/proj'", "its argument 1"),
        ("command = 'python3'\nargs = ['link/server.py']", "its argument 1"),
        ("command = 'python3'\nargs = ['tools/in.py']", "its argument 1"),
        ("command = 'python3'\nargs = ['home/proj/out/server.py']", "its argument 1"),
        ("command = 'node'\nargs = ['--require=TOP/home/proj/server.py', 'x']", "its argument 1"),
        ("command = 'sh'\nargs = ['-c', 'exec python3 \"home/proj/server.py\"']", "its argument 2"),
        ("command = 'python3'\nargs = ['-I', 'home/proj/pkg']", "its argument 2"),
        ("command = 'uv'\nargs = ['--directory', 'home/proj', 'run', 'x']", "its argument 2"),
        ("command = 'npm'\nargs = ['--prefix=link', 'start']", "its argument 1"),
        ("command = 'python3'\nargs = ['-m', 'server']\ncwd = 'home/proj'", "starts (`cwd`)"),
        ("command = 'npx'\nargs = ['-y', 'server']\ncwd = 'link/deep'", "starts (`cwd`)"),
        ("command = 'python3'\nenv = { PYTHONPATH = 'TOP/tools:TOP/home/proj/lib' }", "PYTHONPATH"),
        ("command = 'x'\nenv = { SETTINGS = 'TOP/home/proj/server.py' }", "variable SETTINGS"),
        ("command = 'x'\nenv = { PATH = 'TOP/home/proj/bin:/usr/bin' }", "by PATH"),
    ] {
        let entry = entry.replace("TOP", &place.top().display().to_string());
        refused(&entry, place.server(&entry), expected);
        refused(&entry, place.server(&entry), REMEDY);
        refused(&entry, place.server(&entry), "/home/proj, where scripts of the profile \"x\"");
        place.server(&format!("{entry}\nruns_from_workspace = true")).unwrap();
    }
    // Without `cwd` the server starts where pinfold does.
    let mut below = Place::new();
    below.host.directory = below.top().join("home/proj/deep");
    let natural = "command = 'npx'\nargs = ['-y', 'server-filesystem', '.']";
    refused(natural, below.server(natural), "starts (pinfold's own, without `cwd`)");
    refused(natural, below.server(natural), REMEDY);
    below.server(&format!("{natural}\ncwd = '/'")).unwrap();
    // What scripts of a session's own workspace can write counts as well.
    let own = "[profiles.x]\nservers = ['s']\n[servers.s]\ncommand = 'python3'\n\
               args = ['data/workspaces/s/a.py']\n";
    refused(own, place.check(own, None), "its argument 1");
    // Data may lie there, and so may everything where scripts cannot write.
    place.server("command = 'npx'\nargs = ['-y', 'server-filesystem', 'TOP/home/proj']").unwrap();
    let read_only = "[profiles.x]\nservers = ['s']\npermission_mode = 'read_only'\n\
                     workspace = { path = 'home/proj' }\n\
                     [servers.s]\ncommand = 'python3'\nargs = ['home/proj/server.py']\n";
    place.check(read_only, None).unwrap();
}

#[test]
fn an_imported_server_cannot_say_itself_that_scripts_may_change_it() {
    let place = Place::new();
    let text = "[profiles.x]\nservers = ['s']\nworkspace = { path = 'home/proj' }\n";
    let import = format!(
        r#"{{"mcpServers": {{"s": {{"command": "python3", "runs_from_workspace": true,
            "args": ["{}/home/proj/server.py"]}}}}}}"#,
        place.top().display()
    );
    let fault = place.check(text, Some(&import)).unwrap_err();
    assert!(fault.contains("tools/.mcp.json") && fault.contains("copy the entry"), "{fault}");
}

#[test]
fn an_interpreter_that_a_script_can_write_is_never_asked() {
    let mut place = Place::new();
    let python = |place: &Place, setting: &str| {
        let text = format!(
            "[profiles.x]\nworkspace = {{ path = 'home/proj' }}\n[execute]\npython = '{setting}'\n"
        );
        place.check(&text, None)
    };
    for setting in [
        "home/proj/.venv/bin/python",
        "link/.venv/bin/python",
        "tools/env/bin/python",
        "home/proj/out/venv/bin/python",
        // It lies outside, but its base does not.
        "tools/venv/bin/python",
    ] {
        refused(setting, python(&place, setting), "make the environment outside the workspace");
    }
    python(&place, "auto").unwrap();
    python(&place, "/usr/bin/python3").unwrap();
    place.host.path = format!("{}/link/.venv/bin:/usr/bin", place.top().display()).into();
    refused("PATH", python(&place, "auto"), "take that out of PATH");
    refused("PATH", python(&place, "python3"), "take that out of PATH");
    python(&place, "/usr/bin/python3").unwrap();
    place.host.path = "/usr/bin".into();
    place.host.interpreters = vec![("PYENV_ROOT", place.top().join("home/proj/pyenv"))];
    refused("PYENV_ROOT", python(&place, "auto"), "take that out of PYENV_ROOT");
}

#[test]
fn no_script_works_where_the_host_or_pinfold_keeps_what_it_trusts() {
    let place = Place::new();
    let mode = |mode: &str, workspace: &str| {
        let text = format!(
            "[profiles.x]\npermission_mode = '{mode}'\nworkspace = {{ path = '{workspace}' }}\n"
        );
        place.check(&text, None)
    };
    for (workspace, expected) in [
        ("/", "could change data_dir"),
        ("home", "your own configuration"),
        ("home/.config", "your own configuration"),
        ("home/.config/pinfold/deep", "your own configuration"),
        ("state", "what you have trusted"),
        ("state/pinfold", "what you have trusted"),
        ("home/.ssh", "begin with a dot"),
        ("home/.cargo/not/yet", "begin with a dot"),
        ("/etc", "belongs to the system"),
        ("/etc/cron.d", "belongs to the system"),
        ("/usr/local", "belongs to the system"),
        ("/bin", "belongs to the system"),
        ("/lib", "belongs to the system"),
        ("/sbin", "belongs to the system"),
        ("/boot", "belongs to the system"),
        ("/dev/shm", "belongs to the system"),
        ("/proc", "belongs to the system"),
        ("/sys", "belongs to the system"),
        ("/run", "belongs to the system"),
        ("/var", "belongs to the system"),
        ("/var/spool/cron", "belongs to the system"),
        ("/var/tmp", "belongs to the system"),
        ("/home", "belongs to the system"),
    ] {
        for writes in ["ask", "read_only"] {
            refused(workspace, mode(writes, workspace), expected);
        }
    }
    refused("tools", mode("ask", "tools"), "could change pinfold itself");
    mode("read_only", "tools").unwrap();
    let mut elsewhere = Place::new();
    elsewhere.host.configuration = None;
    let home = "[profiles.x]\nworkspace = { path = 'home' }\n";
    refused("home", elsewhere.check(home, None), "a home directory");
    for fine in ["home/proj", "link", "home/other", "/run/media/ann/disk", "/var/lib/agent"] {
        mode("ask", fine).unwrap();
    }
}

#[test]
fn no_script_chooses_the_workspace_of_another_profile() {
    let place = Place::new();
    let two = |mode: &str, a: &str, b: &str| {
        let text = format!(
            "[profiles.a]\npermission_mode = '{mode}'\nworkspace = {{ path = '{a}' }}\n\
             [profiles.b]\nworkspace = {{ path = '{b}' }}\n"
        );
        place.check(&text, None)
    };
    refused("below", two("ask", "home/proj", "home/proj/sub"), "could put a link in its place");
    refused("link", two("ask", "home/proj", "home/proj/out/venv"), "could put a link");
    two("read_only", "home/proj", "home/proj/sub").unwrap();
    two("ask", "home/proj", "link").unwrap();
    two("ask", "home/proj", "home/other").unwrap();
}

#[test]
fn a_path_through_links_depends_on_every_one_of_them() {
    let place = Place::new();
    let top = place.top();
    symlink("loop", top.join("loop")).unwrap();
    let found = way(&top.join("link/out/server.py"));
    assert_eq!(found, ["link", "home/proj/out", "tools/server.py"].map(|part| top.join(part)));
    assert_eq!(end(&top.join("link/deep/../../not/yet")), top.join("home/not/yet"));
    assert!(way(&top.join("loop")).len() <= 42);
}
