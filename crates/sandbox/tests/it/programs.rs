//! Real interpreters work as they are: Python with its modules, Node, one under a home directory.

use std::path::{Path, PathBuf};
use std::process::Command;

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

/// An interpreter as pyenv lays it out, below a directory that is somebody's home.
fn interpreter_at(home: &Path) -> PathBuf {
    let real = Path::new("/usr/bin/python3").canonicalize().unwrap();
    let name = real.file_name().unwrap().to_str().unwrap();
    let prefix = home.join(".pyenv/versions/3");
    std::fs::create_dir_all(prefix.join("bin")).unwrap();
    std::fs::create_dir_all(prefix.join("lib")).unwrap();
    std::fs::copy(&real, prefix.join("bin").join(name)).unwrap();
    let library = format!("/usr/lib/{name}");
    let copied = Command::new("/bin/cp").args(["-r", &library]).arg(prefix.join("lib")).status();
    assert!(copied.unwrap().success());
    prefix.join("bin").join(name)
}

#[tokio::test]
async fn an_interpreter_under_a_home_directory_shows_nothing_else_of_it() {
    let sandbox = sandbox().await;
    let place = tempfile::tempdir().unwrap();
    let home = place.path().canonicalize().unwrap();
    std::fs::create_dir(home.join("secrets")).unwrap();
    let interpreter = interpreter_at(&home);
    let script = format!(
        "import sys, os, json, sqlite3; print(os.listdir({home:?}), os.listdir({:?})); print(sys.prefix)",
        home.join(".pyenv")
    );
    let mut spec = program(interpreter.to_str().unwrap(), &["-I", "-c", &script]);
    spec.mounts = prefixes(&interpreter);
    let ended = run(&sandbox, spec).await;
    let expected = format!("['.pyenv'] ['versions']\n{}/.pyenv/versions/3\n", home.display());
    assert_eq!(text(&ended.stdout.head), expected, "{}", text(&ended.stderr.head));

    let environment = home.join("work/venv");
    std::fs::create_dir_all(environment.join("bin")).unwrap();
    let base = interpreter.parent().unwrap();
    std::fs::write(environment.join("pyvenv.cfg"), format!("home = {}\n", base.display())).unwrap();
    let python = environment.join("bin/python3");
    std::os::unix::fs::symlink(&interpreter, &python).unwrap();
    let mut spec = program(python.to_str().unwrap(), &["-I", "-c", &script]);
    spec.mounts = prefixes(&python);
    let ended = run(&sandbox, spec).await;
    let said = text(&ended.stdout.head);
    let prefix = format!("\n{}\n", environment.display());
    assert!(said.ends_with(&prefix), "{said}{}", text(&ended.stderr.head));
    assert!(said.contains("'work'") && !said.contains("secrets"), "{said}");
}

/// In the virtual environment that `.ci/test-tools` makes. Where that lies below a directory of
/// root's, an ordinary user cannot read it; the script crate tests the same with its own paths.
#[tokio::test]
async fn numpy_and_pandas_compute_under_a_limit() {
    let interpreter = std::env::var_os("PINFOLD_TEST_TOOLS")
        .map(|tools| PathBuf::from(tools).join("venv/bin/python"));
    let Some(interpreter) = interpreter.filter(|python| python.exists()) else {
        let missing = "no venv with numpy and pandas in PINFOLD_TEST_TOOLS";
        if std::env::var_os(crate::ordinary::MARK).is_some() {
            let _ = std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!("SKIPPED: {missing} for an ordinary user\n"),
            );
            return;
        }
        return skip(&format!("{missing} (install with .ci/test-tools)"));
    };
    let sandbox = sandbox().await;
    let script = "import numpy as np, pandas as pd
x = np.random.rand(400, 400)
print(pd.DataFrame(x @ x).shape, pd.Series([1, 2, 3]).mean())";
    let mut spec = program(interpreter.to_str().unwrap(), &["-c", script]);
    spec.mounts = prefixes(&interpreter);
    spec.limits.memory = 512 << 20;
    let ended = run(&sandbox, spec).await;
    assert_eq!(text(&ended.stdout.head), "(400, 400) 2.0\n", "{}", text(&ended.stderr.head));
}
