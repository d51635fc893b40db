//! What every database has to do: on SQLite always, on PostgreSQL where `PINFOLD_TEST_POSTGRES`
//! names one. Names are made for each run, so that a database can be used again.

use std::sync::Arc;

use uuid::Uuid;

use crate::*;
use approvals::*;
use background::*;
use credentials::*;
use events::*;

mod approvals;
mod background;
mod credentials;
mod events;

struct Place {
    store: Store,
    _folder: Option<tempfile::TempDir>,
}

fn fresh(what: &str) -> String {
    format!("{what}-{}", Uuid::now_v7())
}

async fn sqlite() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/a folder/p%nfold.db", folder.path().display());
    Place { store: Store::open(&url).await.unwrap(), _folder: Some(folder) }
}

async fn postgres() -> Option<Place> {
    let Ok(url) = std::env::var("PINFOLD_TEST_POSTGRES") else {
        let required = std::env::var("PINFOLD_TEST_REQUIRE").is_ok_and(|value| value == "all");
        assert!(!required, "PINFOLD_TEST_POSTGRES is not set, and every test is required");
        let _ = std::io::Write::write_fmt(
            &mut std::io::stderr(),
            format_args!(
                "SKIPPED: set PINFOLD_TEST_POSTGRES to run the store's contract on PostgreSQL\n"
            ),
        );
        return None;
    };
    Some(Place { store: Store::open(&url).await.unwrap(), _folder: None })
}

macro_rules! contract {
    ($($name:ident),* $(,)?) => {
        mod on_sqlite {
            $(#[tokio::test] async fn $name() { super::$name(super::sqlite().await.store).await; })*
        }
        mod on_postgres {
            $(#[tokio::test] async fn $name() {
                if let Some(place) = super::postgres().await { super::$name(place.store).await; }
            })*
        }
    };
}

contract!(
    a_question_is_asked_once_and_its_answer_used_once,
    an_answer_given_back_is_found_again_until_it_expires,
    of_two_answers_the_first_wins,
    of_two_takers_one_gets_the_answer,
    questions_and_answers_expire,
    a_void_question_cannot_be_answered,
    a_session_allows_one_definition,
    a_script_ends_once,
    an_intent_ends_once,
    unfinished_rows_are_found_by_owner,
    audit_rows_come_newest_first,
    owners_come_and_go,
    sessions_are_touched_again,
    a_background_call_ends_once,
    a_cancelled_background_call_stays_cancelled_and_takes_one_result,
    background_calls_are_found_by_whose_they_are,
    what_is_over_is_forgotten_and_what_runs_is_not,
    a_credential_belongs_to_one_server_at_one_address,
    of_two_who_would_renew_a_credential_one_does,
    what_is_renewed_late_does_not_undo_a_new_login,
    many_writers_at_once,
    events_are_read_in_order_and_pruned,
);

fn script(owner: &str) -> ScriptRow {
    ScriptRow {
        id: fresh("script"),
        owner: owner.to_owned(),
        session: fresh("session"),
        principal: "ann".into(),
        profile: "default".into(),
        workspace: "/w".into(),
        description: "counts".into(),
        code: "print(1)\n".into(),
        isolation: "full".into(),
        started_ms: 5,
    }
}

fn intent(owner: &str, script: &str, number: i64) -> IntentRow {
    IntentRow {
        id: fresh("intent"),
        owner: owner.to_owned(),
        script: script.to_owned(),
        number,
        session: "s".into(),
        principal: "ann".into(),
        profile: "default".into(),
        tool: "fleet__reboot".into(),
        arguments: "{}".into(),
        state: IntentState::Pending,
        at_ms: 6,
    }
}

fn audit(session: &str) -> AuditRow {
    AuditRow {
        id: Uuid::now_v7().to_string(),
        at_ms: 7,
        kind: "script".into(),
        principal: "ann".into(),
        profile: "default".into(),
        session: session.to_owned(),
        tool: "run_script".into(),
        outcome: "ok".into(),
        isolation: "full".into(),
        detail: "{}".into(),
    }
}

async fn rows_of(store: &Store, session: &str) -> Vec<AuditRow> {
    let filter =
        AuditFilter { session: Some(session.to_owned()), limit: 100, ..AuditFilter::default() };
    store.audit_rows(&filter).await.unwrap()
}

async fn a_script_ends_once(store: Store) {
    let row = script(&fresh("owner"));
    store.script_started(&row).await.unwrap();
    assert_eq!(store.script_state(&row.id).await.unwrap(), Some(ScriptState::Running));
    let end = |state| {
        let (store, row) = (store.clone(), row.clone());
        async move { store.script_ended(&row.id, state, &audit(&row.session), 9).await.unwrap() }
    };
    assert!(end(ScriptState::Interrupted).await);
    assert!(!end(ScriptState::Finished).await);
    let found = store.script(&row.id).await.unwrap();
    assert_eq!(found, Some((row.clone(), ScriptState::Interrupted, 9)));
    assert_eq!(rows_of(&store, &row.session).await.len(), 1);
    assert_eq!(store.script_state(&fresh("none")).await.unwrap(), None);
}

async fn an_intent_ends_once(store: Store) {
    let row = intent(&fresh("owner"), &fresh("script"), 1);
    store.intend(&row).await.unwrap();
    let session = fresh("session");
    let audit = audit(&session);
    assert!(store.intent_ended(&row.id, IntentState::Unknown, Some(&audit), 8).await.unwrap());
    assert!(!store.intent_ended(&row.id, IntentState::Done, Some(&audit), 9).await.unwrap());
    let found = store.intents_of(&row.script).await.unwrap();
    assert_eq!(found, vec![IntentRow { state: IntentState::Unknown, ..row }]);
    assert_eq!(rows_of(&store, &session).await, vec![audit]);
}

async fn unfinished_rows_are_found_by_owner(store: Store) {
    let owner = fresh("owner");
    let (running, over) = (script(&owner), script(&owner));
    store.script_started(&running).await.unwrap();
    store.script_started(&over).await.unwrap();
    store.script_started(&script(&fresh("other"))).await.unwrap();
    let row = audit(&over.session);
    store.script_ended(&over.id, ScriptState::Finished, &row, 9).await.unwrap();
    assert_eq!(store.running_scripts(&owner).await.unwrap(), vec![running.clone()]);
    let (second, first) = (intent(&owner, &running.id, 2), intent(&owner, &running.id, 1));
    let done = intent(&owner, &running.id, 3);
    for row in [&second, &first, &done] {
        store.intend(row).await.unwrap();
    }
    store.intent_ended(&done.id, IntentState::Done, None, 9).await.unwrap();
    assert_eq!(store.pending_intents(&owner).await.unwrap(), vec![first, second]);
    assert_eq!(store.intents_of(&running.id).await.unwrap().len(), 3);
}

async fn audit_rows_come_newest_first(store: Store) {
    let session = fresh("session");
    let rows = [audit(&session), audit(&session), audit(&session)];
    store.audit(&rows).await.unwrap();
    store.audit(&rows[..1]).await.unwrap();
    let found = rows_of(&store, &session).await;
    assert_eq!(found, rows.iter().rev().cloned().collect::<Vec<_>>());
    let filter = AuditFilter {
        session: Some(session.clone()),
        before: Some(rows[2].id.clone()),
        limit: 1,
        ..AuditFilter::default()
    };
    assert_eq!(store.audit_rows(&filter).await.unwrap(), vec![rows[1].clone()]);
    let row = &rows[0];
    let all = AuditFilter { session: Some(session), limit: 10, ..AuditFilter::default() };
    let some = |text: &str| Some(text.to_owned());
    for (filter, count) in [
        (AuditFilter { tool: some(&row.tool), ..all.clone() }, 3),
        (AuditFilter { tool: some("other"), ..all.clone() }, 0),
        (AuditFilter { outcome: some(&row.outcome), ..all.clone() }, 3),
        (AuditFilter { outcome: some("other"), ..all.clone() }, 0),
        (AuditFilter { principal: some(&row.principal), ..all.clone() }, 3),
        (AuditFilter { principal: some("other"), ..all.clone() }, 0),
        (AuditFilter { from_ms: Some(row.at_ms), ..all.clone() }, 3),
        (AuditFilter { from_ms: Some(row.at_ms + 1), ..all.clone() }, 0),
        (AuditFilter { to_ms: Some(row.at_ms), ..all.clone() }, 0),
        (AuditFilter { to_ms: Some(row.at_ms + 1), ..all }, 3),
    ] {
        assert_eq!(store.audit_rows(&filter).await.unwrap().len(), count, "{filter:?}");
    }
}

async fn owners_come_and_go(store: Store) {
    let owner =
        Owner { id: fresh("owner"), place: "/p".into(), process: 7, started_ms: 1, seen_ms: 1 };
    store.touch_owner(&owner).await.unwrap();
    let later = Owner { seen_ms: 9, ..owner };
    store.touch_owner(&later).await.unwrap();
    assert!(store.owners().await.unwrap().contains(&later));
    store.remove_owner(&later.id).await.unwrap();
    assert!(!store.owners().await.unwrap().contains(&later));
}

async fn sessions_are_touched_again(store: Store) {
    let row = SessionRow {
        id: fresh("session"),
        principal: "ann".into(),
        profile: "default".into(),
        key: "k".into(),
        at_ms: 1,
    };
    store.touch_session(&row).await.unwrap();
    store.touch_session(&SessionRow { at_ms: 2, ..row.clone() }).await.unwrap();
    let found = store.session(&row.id).await.unwrap().unwrap();
    assert_eq!((found.started_ms, found.seen_ms, found.key.as_str()), (1, 2, "k"));
    assert_eq!(store.session(&fresh("none")).await.unwrap(), None);
    // Pages, also where several started at once.
    let principal = fresh("principal");
    for at_ms in [5, 6, 6, 6, 7] {
        let row = SessionRow { id: fresh("s"), principal: principal.clone(), at_ms, ..row.clone() };
        store.touch_session(&row).await.unwrap();
    }
    let mut filter =
        SessionFilter { principal: Some(principal), limit: 2, ..SessionFilter::default() };
    let mut pages = Vec::new();
    loop {
        let page = store.sessions(&filter).await.unwrap();
        let Some(last) = page.last() else { break };
        filter.before = Some((last.started_ms, last.id.clone()));
        pages.extend(page);
    }
    assert_eq!(pages.iter().map(|row| row.started_ms).collect::<Vec<_>>(), [7, 6, 6, 6, 5]);
    pages.dedup_by(|a, b| a.id == b.id);
    assert_eq!(pages.len(), 5);
}

async fn many_writers_at_once(store: Store) {
    let owner = Arc::new(fresh("owner"));
    let session = Arc::new(fresh("session"));
    let writers: Vec<_> = (0..40)
        .map(|number| {
            let (store, owner, session) = (store.clone(), owner.clone(), session.clone());
            tokio::spawn(async move {
                let row = intent(&owner, "s", number);
                store.intend(&row).await.unwrap();
                store.audit(&[audit(&session)]).await.unwrap();
                store.intent_ended(&row.id, IntentState::Done, None, 9).await.unwrap();
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(rows_of(&store, &session).await.len(), 40);
    assert_eq!(store.pending_intents(&owner).await.unwrap(), vec![]);
}

#[tokio::test]
async fn two_processes_make_one_fresh_file() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/new.db", folder.path().display());
    let opening: Vec<_> = (0..4)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { Store::open(&url).await.unwrap() })
        })
        .collect();
    for open in opening {
        open.await.unwrap().owners().await.unwrap();
    }
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(folder.path().join("new.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn opening_and_closing_a_fresh_file_at_once_is_never_locked() {
    for round in 0..25 {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/new.db", folder.path().display());
        let opening: Vec<_> = (0..4)
            .map(|_| {
                let url = url.clone();
                tokio::spawn(async move {
                    let store = Store::open(&url).await?;
                    store.owners().await?;
                    store.close().await;
                    Ok::<(), crate::Error>(())
                })
            })
            .collect();
        for open in opening {
            open.await.unwrap().unwrap_or_else(|error| panic!("round {round}: {error}"));
        }
    }
}

#[tokio::test]
async fn rows_are_there_after_opening_again() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/again.db", folder.path().display());
    let store = Store::open(&url).await.unwrap();
    let row = intent("o", "s", 1);
    store.intend(&row).await.unwrap();
    store.close().await;
    let store = Store::open(&url).await.unwrap();
    assert_eq!(store.pending_intents("o").await.unwrap(), vec![row]);
}

#[tokio::test]
async fn a_newer_database_is_refused() {
    let place = sqlite().await;
    let mut writing = place.store.write(crate::dialect::Durability::Machine).await.unwrap();
    sqlx::raw_sql("INSERT INTO schema_steps (version, at_ms) VALUES (99, 0)")
        .execute(writing.connection())
        .await
        .unwrap();
    writing.commit().await.unwrap();
    let error = crate::migrate::run(&place.store).await.unwrap_err();
    assert!(matches!(error, Error::TooNew { found: 99, .. }), "{error}");
}

#[tokio::test]
async fn the_intent_of_a_write_is_synced_and_the_rest_is_not() {
    let place = sqlite().await;
    for (durability, expected) in
        [(crate::dialect::Durability::Machine, 2), (crate::dialect::Durability::Process, 1)]
    {
        let mut writing = place.store.write(durability).await.unwrap();
        let level: i64 =
            sqlx::query_scalar("PRAGMA synchronous").fetch_one(writing.connection()).await.unwrap();
        let mode: String = sqlx::query_scalar("PRAGMA journal_mode")
            .fetch_one(writing.connection())
            .await
            .unwrap();
        assert_eq!((level, mode.as_str()), (expected, "wal"));
    }
}

#[tokio::test]
async fn wrong_addresses_say_what_would_do() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("text.db"),
        "this is no database at all, just text\n".repeat(99),
    )
    .unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let place = folder.path().display().to_string();
    for (url, expected) in [
        ("mysql://x".to_owned(), "must be sqlite://path/file.db or postgres://"),
        ("sqlite://".to_owned(), "names no file"),
        ("sqlite::memory:".to_owned(), "names no file"),
        (format!("sqlite://{place}"), "give a place that can be written"),
        (format!("sqlite://{place}/file/x.db"), "give a place that can be written"),
        (format!("sqlite://{place}/text.db"), "give a file that pinfold wrote"),
        ("postgres://user:secret@127.0.0.1:1/none".to_owned(), "cannot be reached"),
    ] {
        let error = Store::open(&url).await.unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains("secret"), "{url}: {error}");
    }
}

/// SQLite rolls back by itself then, so that a `ROLLBACK` fails; the connection used to go back to
/// its pool with a transaction that was never closed, and no later one could begin.
#[tokio::test]
async fn a_transaction_that_a_full_disk_ends_leaves_a_connection_that_works() {
    let Place { store, _folder } = sqlite().await;
    let row = |id: &str, size: usize| AuditRow {
        id: id.to_owned(),
        at_ms: 1,
        kind: "call".into(),
        principal: "ann".into(),
        profile: "default".into(),
        session: "s".into(),
        tool: "t".into(),
        outcome: "ok".into(),
        isolation: String::new(),
        detail: "x".repeat(size),
    };
    let mut single = store.write_one(crate::dialect::Durability::Process).await.unwrap();
    sqlx::raw_sql("PRAGMA max_page_count = 40").execute(single.connection()).await.unwrap();
    drop(single);
    let failed = store.audit(&[row("1", 10), row("2", 1 << 20)]).await.unwrap_err();
    assert!(matches!(failed, Error::Full(_)), "{failed:?}");
    let named = store.located(failed).to_string();
    assert!(named.contains("p%nfold.db is full: free some space"), "{named}");
    store.audit(&[row("3", 10), row("4", 10)]).await.unwrap();
    store.audit(&[row("5", 10)]).await.unwrap();
    let filter = AuditFilter { limit: 10, ..AuditFilter::default() };
    let found = store.audit_rows(&filter).await.unwrap();
    let found: Vec<&str> = found.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(found, ["5", "4", "3"]);
}
