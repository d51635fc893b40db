//! Real interpreters work as they are: Python with its modules, Node, one under a home directory.

use std::path::{Path, PathBuf};

use sandbox::{Access, Ending, Mount, Source, program_prefixes};

use crate::ground::{program, python, run, sandbox, skip, text};

fn prefixes(interpreter: &Path) -> Vec<Mount> {
    let mount = |path: PathBuf| Mount {
        source: Source::Path(path.clone()),
        target: path,
        access: Access::ReadOnly,
    };
    program_prefixes(interpreter).unwrap().into_iter().map(mount).collect()
}

#[tokio::test]
async fn python_has_its_standard_library() {
    let sandbox = sandbox().await;
    let script = "import asyncio, concurrent.futures, json, multiprocessing, os, sqlite3, ssl, subprocess, tempfile, threading
assert subprocess.run(['/bin/echo', 'hi'], capture_output=True).stdout == b'hi\\n'
async def main():
    process = await asyncio.create_subprocess_exec('/bin/true')
    return await process.wait()
assert asyncio.run(main()) == 0
with multiprocessing.Pool(2) as pool: assert pool.map(abs, [-1, -2]) == [1, 2]
with concurrent.futures.ThreadPoolExecutor() as pool: assert list(pool.map(abs, [-3])) == [3]
with tempfile.NamedTemporaryFile() as file: file.write(b'x')
assert sqlite3.connect(':memory:').execute('select 1').fetchone() == (1,)
from multiprocessing import shared_memory
memory = shared_memory.SharedMemory(create=True, size=100); memory.unlink()
print(os.cpu_count() > 0, len(ssl.create_default_context().get_ca_certs()) >= 0)";
    let ended = run(&sandbox, python(script)).await;
    assert_eq!(text(&ended.stdout.head), "True True\n", "{}", text(&ended.stderr.head));
}

#[tokio::test]
async fn node_works() {
    let node = Path::new("/usr/bin/node");
    if !node.exists() {
        return skip("node is not installed in /usr/bin");
    }
    let sandbox = sandbox().await;
    let mut spec = program(
        "/usr/bin/node",
        &[
            "-e",
            "const c = require('child_process'); const o = require('os'); console.log(o.cpus().length > 0, c.execFileSync('/bin/echo', ['hi']).toString().trim(), require('crypto').randomBytes(4).length); new (require('worker_threads').Worker)('process.exit(0)', {eval: true})",
        ],
    );
    spec.limits.memory = 256 << 20;
    let ended = run(&sandbox, spec).await;
    assert_eq!(text(&ended.stdout.head), "true hi 4\n", "{}", text(&ended.stderr.head));
    assert_eq!(ended.ending, Ending::Exited(0));
}

/// The home directories of this machine's users are searched for a pyenv; any will do.
#[tokio::test]
async fn an_interpreter_under_a_home_directory_shows_nothing_else_of_it() {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let versions = std::fs::read_dir(home.join(".pyenv/versions")).into_iter().flatten().flatten();
    let interpreter = versions
        .map(|entry| entry.path().join("bin/python3"))
        .find(|path| path.exists() && !path.to_string_lossy().contains("/3.6"));
    let Some(interpreter) = interpreter else {
        return skip("there is no pyenv in this user's home directory");
    };
    let sandbox = sandbox().await;
    let script = format!(
        "import json, sys, os; print(os.listdir({home:?}), os.listdir({:?})); import ssl, sqlite3",
        home.join(".pyenv/versions")
    );
    let interpreter = interpreter.canonicalize().unwrap();
    let mut spec = program(interpreter.to_str().unwrap(), &["-I", "-c", &script]);
    spec.mounts = prefixes(&interpreter);
    let ended = run(&sandbox, spec).await;
    let version = interpreter.ancestors().nth(2).unwrap().file_name().unwrap().to_string_lossy();
    let expected = format!("['.pyenv'] ['{version}']\n");
    assert_eq!(text(&ended.stdout.head), expected, "{}", text(&ended.stderr.head));
}
