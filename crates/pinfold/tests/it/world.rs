//! A place for one test: a folder with a configuration, scripts and a server that records what
//! reaches it, and the binary run in it with a bound on time.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Longest run of one command in a test.
const BOUND: Duration = Duration::from_secs(60);

/// The server `t`, its tools `t__echo` and so on.
pub(crate) const SERVER: &str =
    "[servers.t]\ncommand = 'python3'\nargs = ['FIXTURES/server.py', '--calls', 'HERE/calls']\n";

/// A folder of its own with a configuration in it.
pub(crate) struct World {
    folder: TempDir,
}

/// A command that is over.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

impl World {
    /// With the server `t` and, behind it, `more` of a configuration.
    pub(crate) fn new(more: &str) -> Self {
        Self::with(&format!("{SERVER}{more}"))
    }

    /// With this configuration; `FIXTURES` and `HERE` in it become paths.
    pub(crate) fn with(configuration: &str) -> Self {
        let world = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir(world.path("home")).unwrap();
        world.write("pinfold.toml", configuration);
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let text = text
            .replace("FIXTURES", &fixtures().display().to_string())
            .replace("HERE", &self.folder.path().display().to_string());
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The binary in this folder, with this home, and nothing of the outer configuration.
    pub(crate) fn pinfold<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pinfold"));
        command.args(arguments);
        self.surround(&mut command);
        command
    }

    /// The binary on a terminal, where each of `typed` (`WHEN=TYPE`) is typed once WHEN appears.
    pub(crate) fn at_terminal(&self, typed: &[&str], arguments: &[&str]) -> Command {
        let mut command = Command::new("python3");
        command.arg(fixtures().join("at_terminal.py")).args(typed).arg("--");
        command.arg(env!("CARGO_BIN_EXE_pinfold")).args(arguments);
        self.surround(&mut command);
        command
    }

    /// Runs a command in this folder, with this home, and nothing of the outer configuration.
    pub(crate) fn surround(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PINFOLD_") {
                command.env_remove(name);
            }
        }
        command
            .current_dir(self.folder.path())
            .env("HOME", self.path("home"))
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_STATE_HOME")
            // A version manager finds its files through HOME, which is another one here.
            .env("PYENV_ROOT", std::env::var("PYENV_ROOT").unwrap_or_else(|_| pyenv_root()))
            .env("PINFOLD_CONFIG", self.path("pinfold.toml"));
    }

    /// Runs `script` with `options`; the script's name is `s.py`.
    pub(crate) fn run(&self, script: &str, options: &[&str]) -> Ended {
        self.write("s.py", script);
        let mut arguments = vec!["run", "s.py"];
        arguments.extend(options);
        ended(self.pinfold(&arguments))
    }

    /// The calls that reached the server, as `name {arguments}`.
    pub(crate) fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("calls")).unwrap_or_default();
        text.lines()
            .map(|line| {
                let (name, arguments): (String, serde_json::Value) =
                    serde_json::from_str(line).unwrap();
                format!("{name} {arguments}")
            })
            .collect()
    }

    /// The record folders of all scripts that ran here, oldest first.
    pub(crate) fn records(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let workspaces = self.path("data/workspaces");
        for workspace in std::fs::read_dir(workspaces).into_iter().flatten().flatten() {
            let scripts = workspace.path().join(".agent/scripts");
            for script in std::fs::read_dir(scripts).into_iter().flatten().flatten() {
                found.push(script.path());
            }
        }
        found.sort();
        found
    }

    /// Every line of the newest script's `calls.jsonl`.
    pub(crate) fn call_lines(&self) -> Vec<serde_json::Value> {
        let folder = self.records().pop().expect("no script was recorded");
        let text = std::fs::read_to_string(folder.join("calls.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Ended {
    /// Panics with everything that was said unless the exit code is `code`.
    #[track_caller]
    pub(crate) fn code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Panics unless standard output contains `part`.
    #[track_caller]
    pub(crate) fn prints(self, part: &str) -> Self {
        assert!(self.stdout.contains(part), "no {part:?} on stdout of {self:#?}");
        self
    }

    /// Panics unless standard error contains `part`.
    #[track_caller]
    pub(crate) fn says(self, part: &str) -> Self {
        assert!(self.stderr.contains(part), "no {part:?} on stderr of {self:#?}");
        self
    }
}

/// Runs a command to its end, or kills it and panics past the bound.
pub(crate) fn ended(command: Command) -> Ended {
    finish(start(command))
}

/// The same with another bound.
pub(crate) fn ended_within(command: Command, bound: Duration) -> Ended {
    finish_within(start(command), bound)
}

/// Starts a command with its streams caught.
pub(crate) fn start(mut command: Command) -> Child {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command cannot be started")
}

/// Waits for a started command.
pub(crate) fn finish(child: Child) -> Ended {
    finish_within(child, BOUND)
}

fn finish_within(mut child: Child, bound: Duration) -> Ended {
    let begun = Instant::now();
    let mut streams = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let stdout = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        streams.0.read_to_end(&mut bytes).map(|_| bytes)
    });
    let stderr = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        streams.1.read_to_end(&mut bytes).map(|_| bytes)
    });
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > bound {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("no end within {bound:?}: {}", lossy(stderr.join().unwrap().unwrap()));
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    Ended {
        code: status.code(),
        stdout: lossy(stdout.join().unwrap().unwrap()),
        stderr: lossy(stderr.join().unwrap().unwrap()),
        took: begun.elapsed(),
    }
}

/// Waits until `condition` gives something, within the bound.
pub(crate) fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(begun.elapsed() < BOUND, "{what}: not within {BOUND:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether scripts can be run on this host; says aloud if not. Begin a test with
/// `if !scripts_run() { return }`.
pub(crate) fn scripts_run() -> bool {
    static RUN: OnceLock<bool> = OnceLock::new();
    let run = *RUN.get_or_init(|| {
        let world = World::with("");
        ended(world.pinfold(&["doctor"])).code == Some(0)
    });
    run || skipped("this host cannot confine scripts; see pinfold doctor")
}

/// Says that a test was skipped, or fails where nothing may be skipped. Always false.
pub(crate) fn skipped(reason: &str) -> bool {
    let required = std::env::var("PINFOLD_TEST_REQUIRE").unwrap_or_default();
    assert_ne!(required, "all", "would be skipped: {reason}");
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    // Through the descriptor, because the harness keeps what a passing test prints.
    let _ = std::fs::OpenOptions::new().append(true).open("/dev/stderr").and_then(|mut file| {
        std::io::Write::write_all(&mut file, format!("SKIPPED: {test}: {reason}\n").as_bytes())
    });
    false
}

/// Where `.ci/test-tools` put the servers that tests run against.
pub(crate) fn test_tools() -> PathBuf {
    std::env::var_os("PINFOLD_TEST_TOOLS")
        .map_or_else(|| repository().join("target/test-tools"), PathBuf::from)
}

/// The top of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Where the tests' own servers and clients are.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn pyenv_root() -> String {
    let home = std::env::var("HOME").unwrap_or_default();
    format!("{home}/.pyenv")
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}
