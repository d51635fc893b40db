//! The same road with PostgreSQL behind it, and two gateways that share it.

use gateway::Answer;
use gateway::policy::PermissionMode;
use serde_json::json;

use crate::ground::{Ground, Setup, asked, done};

/// The address of a database, or nothing, which is said aloud.
fn url() -> Option<String> {
    let url = std::env::var("PINFOLD_TEST_POSTGRES").ok();
    let required = std::env::var("PINFOLD_TEST_REQUIRE").is_ok_and(|value| value == "all");
    assert!(url.is_some() || !required, "PINFOLD_TEST_POSTGRES is not set");
    if url.is_none() {
        let _ = std::io::Write::write_fmt(
            &mut std::io::stderr(),
            format_args!("SKIPPED: set PINFOLD_TEST_POSTGRES to run the gateway on PostgreSQL\n"),
        );
    }
    url
}

async fn open(url: &str, mode: PermissionMode, key: &str) -> Ground {
    let setup = Setup { store: Some(url.to_owned()), mode, ..Setup::default() };
    let ground = setup.open().await;
    let session = ground.gateway.session("ann", "default", key).await.unwrap();
    Ground { session, ..ground }
}

#[tokio::test]
async fn an_approval_given_to_one_gateway_is_found_by_another() {
    let Some(url) = url() else { return };
    let key = fresh_key();
    let one = open(&url, PermissionMode::Ask, &key).await;
    let two = open(&url, PermissionMode::Ask, &key).await;
    let question = asked(one.call("fleet__set", json!({"sn": "a"})).await);
    two.gateway.answer(&question.id, Answer::Session, "bob").await.unwrap();
    done(one.call("fleet__set", json!({"sn": "a"})).await);
    done(two.call("fleet__set", json!({"sn": "b"})).await);
    let said = two.run("print(call('fleet__set', {})['ok'])", &["fleet__set"]).await;
    assert!(said.text.ends_with("\nTrue"), "{}", said.text);
    one.gateway.close().await;
    two.gateway.close().await;
}

#[tokio::test]
async fn a_gateway_that_starts_leaves_the_scripts_of_another_alone() {
    let Some(url) = url() else { return };
    let one = open(&url, PermissionMode::Auto, &fresh_key()).await;
    let code = "import time\ncall('fleet__set', {})\ntime.sleep(1.5)\nprint('on')\n";
    let script = one.call("run_script", Ground::script(code, &["fleet__set"]));
    let other = async {
        while one.fleet.count("set") == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        open(&url, PermissionMode::Auto, &fresh_key()).await.gateway.close().await;
    };
    let (said, ()) = tokio::join!(script, other);
    let said = done(said);
    assert!(said.text.ends_with("\non") && !said.text.contains("note:"), "{}", said.text);
    one.gateway.close().await;
}

/// A name that no earlier run has used in this database.
fn fresh_key() -> String {
    let folder = tempfile::tempdir().unwrap();
    format!("{}-{}", folder.path().display(), std::process::id())
}
