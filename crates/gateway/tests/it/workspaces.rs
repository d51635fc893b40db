//! Sessions and their workspaces: no key leads out, a link is refused or resolved once.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use gateway::Error;
use gateway::config::Workspace;

use crate::ground::{Ground, Setup, done, refused};

#[tokio::test]
async fn no_key_leads_out_of_workspaces() {
    let ground = Ground::new().await;
    let root = std::fs::canonicalize(ground.data.path()).unwrap().join("workspaces");
    let mut seen = std::collections::HashSet::new();
    for (principal, key) in [
        ("ann", "../../etc"),
        ("ann", "/etc/passwd"),
        ("ann", ".."),
        ("ann", "."),
        ("ann", "a\nb"),
        ("ann", "日本"),
        ("bob", ".."),
        ("an", "n.."),
    ] {
        let session = ground.gateway.session(principal, "default", key).await.unwrap();
        assert_eq!(session.workspace().parent(), Some(root.as_path()), "{key:?}");
        assert!(session.workspace().is_dir());
        assert!(seen.insert(session.workspace().to_owned()), "{principal} {key:?}");
    }
    let again = ground.gateway.session("ann", "default", "..").await.unwrap();
    assert!(seen.contains(again.workspace()));
    for key in ["", &"k".repeat(600), "a\0b"] {
        let error = ground.gateway.session("ann", "default", key).await.unwrap_err();
        assert!(matches!(error, Error::Setting(_)), "{error}");
    }
    let error = ground.gateway.session("ann", "defualt", "k").await.unwrap_err().to_string();
    assert!(error.contains("did you mean \"default\""), "{error}");
}

#[tokio::test]
async fn a_sessions_folder_that_became_a_link_is_refused() {
    let ground = Ground::new().await;
    let outside = tempfile::tempdir().unwrap();
    let workspace = ground.session.workspace().to_owned();
    std::fs::remove_dir(&workspace).unwrap();
    symlink(outside.path(), &workspace).unwrap();
    let error = ground.gateway.session("ann", "default", "s1").await.unwrap_err().to_string();
    assert!(error.contains("a link stands there"), "{error}");
    let outcome = ground.call("run_script", Ground::script("open('x', 'w')", &[])).await;
    refused(outcome);
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    // A folder that was removed is made again.
    std::fs::remove_file(&workspace).unwrap();
    done(ground.call("run_script", Ground::script("open('x', 'w')", &[])).await);
    assert!(workspace.join("x").exists());
}

fn at(path: PathBuf) -> Setup {
    let workspace = Workspace { path: Some(path), ..Workspace::default() };
    Setup { workspace, ..Setup::default() }
}

#[tokio::test]
async fn a_configured_folder_is_used_and_a_link_to_it_resolved_once() {
    let folder = tempfile::tempdir().unwrap();
    let (real, other, link) =
        (folder.path().join("real"), folder.path().join("other"), folder.path().join("link"));
    std::fs::create_dir(&real).unwrap();
    std::fs::create_dir(&other).unwrap();
    symlink(&real, &link).unwrap();
    let ground = at(link.clone()).open().await;
    assert_eq!(ground.session.workspace(), std::fs::canonicalize(&real).unwrap());
    std::fs::remove_file(&link).unwrap();
    symlink(&other, &link).unwrap();
    done(ground.call("run_script", Ground::script("open('x', 'w')", &[])).await);
    assert!(real.join("x").exists() && !other.join("x").exists());
    // The folder itself replaced by a link is not the folder any more.
    std::fs::rename(&real, folder.path().join("moved")).unwrap();
    symlink(&other, &real).unwrap();
    let outcome = ground.call("run_script", Ground::script("open('y', 'w')", &[])).await;
    refused(outcome);
    assert!(!other.join("y").exists());
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_said() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    for (name, expected) in [("none", "make the folder or change"), ("file", "is not a folder")] {
        let data = tempfile::tempdir().unwrap();
        let gateway = at(folder.path().join(name)).open_at(data.path()).await.unwrap();
        let error = gateway.session("ann", "default", "k").await.unwrap_err();
        assert!(matches!(error, Error::Workspace(_)));
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn a_workspace_never_holds_what_pinfold_keeps() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::create_dir(data.join("inner")).unwrap();
    for path in [folder.path().to_owned(), data.clone(), data.join("inner")] {
        let gateway = at(path).open_at(&data).await.unwrap();
        let error = gateway.session("ann", "default", "k").await.unwrap_err().to_string();
        assert!(error.contains("put `data_dir` somewhere else"), "{error}");
        gateway.close().await;
    }
}

#[tokio::test]
async fn a_backend_that_is_not_there_is_said_and_never_replaced() {
    let workspace = Workspace { backend: gateway::config::Backend::Docker, ..Workspace::default() };
    let data = tempfile::tempdir().unwrap();
    let gateway = Setup { workspace, ..Setup::default() }.open_at(data.path()).await.unwrap();
    let error = gateway.session("ann", "default", "k").await.unwrap_err().to_string();
    assert!(error.contains("cannot be used by this version"), "{error}");
}
