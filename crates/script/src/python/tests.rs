use std::os::unix::fs::PermissionsExt;

use super::*;

fn program(directory: &Path, name: &str, content: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, content).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

async fn refusal(setting: &str) -> String {
    Python::find(setting).await.unwrap_err().to_string()
}

#[tokio::test]
async fn auto_finds_a_real_executable_of_a_version_that_will_do() {
    let python = Python::find("auto").await.unwrap();
    assert!((python.version.0, python.version.1) >= OLDEST);
    assert_eq!(python.executable.canonicalize().unwrap(), python.executable);
    assert!(python.own_memory > 1 << 20);
}

#[tokio::test]
async fn a_setting_that_will_not_do_is_refused_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let old = r#"echo '{"implementation":"cpython","version":[3,9,2],"is_final":true,"executable":"/x","prefix":"/x","base_prefix":"/x","memory_kb":1}'"#;
    let other = old.replace("cpython", "pypy").replace("9,2", "11,1");
    let table = [
        ("/nonexistent/python3".to_owned(), "no python interpreter at"),
        ("no-such-python".to_owned(), "no python interpreter at"),
        (directory.path().to_str().unwrap().to_owned(), "no python interpreter at"),
        (program(directory.path(), "old", &format!("#!/bin/sh\n{old}")), "it is Python 3.9.2"),
        (program(directory.path(), "pypy", &format!("#!/bin/sh\n{other}")), "it is pypy"),
        (program(directory.path(), "fails", "#!/bin/sh\necho no >&2; exit 3"), "status: 3: no"),
        (program(directory.path(), "other", "#!/bin/sh\necho hello"), "does not answer as Python"),
        (program(directory.path(), "broken", "\0\0"), "cannot be started"),
    ];
    for (setting, expected) in table {
        let said = refusal(&setting).await;
        assert!(said.contains(expected), "{setting}: {said}");
        assert!(said.contains("3.10"), "{setting}: {said}");
    }
}

#[tokio::test]
async fn a_virtual_environment_keeps_its_own_executable_and_both_prefixes() {
    let directory = tempfile::tempdir().unwrap();
    let base = Python::find("auto").await.unwrap();
    let venv = directory.path().canonicalize().unwrap().join("venv");
    let made = tokio::process::Command::new(&base.executable)
        .args(["-I", "-m", "venv", "--without-pip"])
        .arg(&venv)
        .status()
        .await
        .unwrap();
    assert!(made.success());

    let python = Python::find(venv.join("bin/python").to_str().unwrap()).await.unwrap();

    assert_eq!(python.executable, venv.join("bin/python"));
    assert_eq!(python.version, base.version);
    assert!(python.prefixes.contains(&venv.join("pyvenv.cfg")), "{:?}", python.prefixes);
    for prefix in &base.prefixes {
        assert!(python.prefixes.contains(prefix), "{:?} lacks {prefix:?}", python.prefixes);
    }
}

#[tokio::test]
async fn behind_a_shim_the_real_executable_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let base = Python::find("auto").await.unwrap();
    let content = format!("#!/bin/sh\nexec {} \"$@\"", base.executable.display());
    let shim = program(directory.path(), "python3", &content);
    let python = Python::find(&shim).await.unwrap();
    assert_eq!((python.executable, python.prefixes), (base.executable, base.prefixes));
}
