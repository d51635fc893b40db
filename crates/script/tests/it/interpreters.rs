//! Interpreters from different places, and what each lets a script see of the host.

use std::path::Path;

use script::{Ending, Python};

use crate::ground::{Ground, skip, version};

#[tokio::test]
async fn every_version_runs_a_script() {
    let mut missing = Vec::new();
    for wanted in ["3.10", "3.11", "3.12", "3.13", "3.14"] {
        let Some(python) = version(wanted).await else {
            missing.push(wanted);
            continue;
        };
        let ground = Ground::with(python).await;
        let code = "import sys, ssl, sqlite3, ctypes, lzma\nfrom agent_tools import call\nprint('%d.%d' % sys.version_info[:2], call('text'), await call('number'))";
        let ran = ground.run(code).await;
        assert_eq!(ran.stdout, format!("{wanted} hello 7\n"), "{}", ran.shown());
    }
    if !missing.is_empty() {
        eprintln!("not on this machine: Python {}", missing.join(", "));
    }
}

#[tokio::test]
async fn an_interpreter_below_a_home_does_not_show_the_rest_of_the_home() {
    let Some(home) = std::env::var_os("HOME") else { return skip("HOME is not set") };
    let mut tried = 0;
    for wanted in ["3.10", "3.11", "3.12", "3.13"] {
        let Some(python) = version(wanted).await else { continue };
        if !python.executable.starts_with(&home) {
            continue;
        }
        tried += 1;
        let ground = Ground::with(python.clone()).await;
        let secret = tempfile::NamedTempFile::new_in(&home).unwrap();
        let code = format!(
            "import os\nhome = {:?}\nprint(os.path.exists({:?}))\nseen = []\n\
             for folder, folders, files in os.walk(home):\n    seen.append(folder)\n    if {:?}.startswith(folder + '/'): continue\n    folders.clear()\nprint(seen)",
            home.to_str().unwrap(),
            secret.path().to_str().unwrap(),
            python.executable.to_str().unwrap(),
        );
        let ran = ground.run(&code).await;
        let (exists, seen) = ran.stdout.split_once('\n').unwrap();
        assert_eq!(exists, "False", "{}", ran.shown());
        for folder in seen.trim_matches(|c| "[]\n".contains(c)).split(", ") {
            let folder = folder.trim_matches('\'');
            let on_the_way = python.executable.starts_with(folder);
            let within = python.prefixes.iter().any(|prefix| Path::new(folder).starts_with(prefix));
            assert!(on_the_way || within, "{folder} is seen: {}", ran.shown());
        }
    }
    if tried == 0 {
        eprintln!("no interpreter is installed below {}", Path::new(&home).display());
    }
}

#[tokio::test]
async fn a_virtual_environment_keeps_its_packages() {
    let place = tempfile::tempdir().unwrap();
    let venv = place.path().canonicalize().unwrap().join("venv");
    let base = Python::find("auto").await.unwrap();
    let made = std::process::Command::new(&base.executable)
        .args(["-I", "-m", "venv", "--without-pip"])
        .arg(&venv)
        .status()
        .unwrap();
    assert!(made.success());
    let (major, minor, _) = base.version;
    let packages = venv.join(format!("lib/python{major}.{minor}/site-packages"));
    std::fs::write(packages.join("only_here.py"), "NAME = 'only here'").unwrap();
    std::fs::write(place.path().join("private.txt"), "private").unwrap();

    let ground =
        Ground::with(Python::find(venv.join("bin/python").to_str().unwrap()).await.unwrap()).await;
    let code = format!(
        "import only_here, os, sys\nprint(only_here.NAME, sys.prefix == {0:?}, os.listdir({1:?}))",
        venv.to_str().unwrap(),
        place.path().to_str().unwrap()
    );
    let ran = ground.run(&code).await;
    assert_eq!(ran.finished.ending, Ending::Completed, "{}", ran.shown());
    assert_eq!(ran.stdout, "only here True ['venv']\n", "{}", ran.shown());
}
