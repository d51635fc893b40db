//! Calls in the background.

use uuid::Uuid;

use super::fresh;
use crate::*;

fn background(session: &str, owner: &str) -> BackgroundRow {
    BackgroundRow {
        id: Uuid::now_v7().to_string(),
        owner: owner.to_owned(),
        session: session.to_owned(),
        principal: "ann".into(),
        profile: "default".into(),
        tool: "run_script".into(),
        arguments: "{\"code\":\"✓\"}".into(),
        digest: "d".into(),
        description: "counts".into(),
        state: BackgroundState::Running,
        result: String::new(),
        started_ms: 5,
        ended_ms: 0,
        expires_ms: 100,
    }
}

pub(super) async fn a_background_call_ends_once(store: Store) {
    let row = background(&fresh("session"), &fresh("owner"));
    store.background_started(&row).await.unwrap();
    assert_eq!(store.background_call(&row.id).await.unwrap(), Some(row.clone()));
    assert!(
        store.background_ended(&row.id, BackgroundState::Finished, "{\"a\":1}", 9).await.unwrap()
    );
    assert!(!store.background_ended(&row.id, BackgroundState::Failed, "{}", 10).await.unwrap());
    assert!(!store.cancel_background(&row.id).await.unwrap());
    let found = store.background_call(&row.id).await.unwrap().unwrap();
    let ended = BackgroundRow {
        state: BackgroundState::Finished,
        result: "{\"a\":1}".into(),
        ended_ms: 9,
        ..row
    };
    assert_eq!(found, ended);
    assert_eq!(store.background_call(&fresh("none")).await.unwrap(), None);
    assert_eq!(store.background_state(&fresh("none")).await.unwrap(), None);
}

pub(super) async fn a_cancelled_background_call_stays_cancelled_and_takes_one_result(store: Store) {
    let row = background(&fresh("session"), &fresh("owner"));
    store.background_started(&row).await.unwrap();
    assert!(store.cancel_background(&row.id).await.unwrap());
    assert!(!store.cancel_background(&row.id).await.unwrap());
    assert_eq!(store.background_state(&row.id).await.unwrap(), Some(BackgroundState::Cancelled));
    // Its work goes on until it is over.
    assert_eq!(store.background_underway(&row.owner).await.unwrap().len(), 1);
    assert!(store.background_ended(&row.id, BackgroundState::Finished, "{}", 9).await.unwrap());
    assert!(!store.background_ended(&row.id, BackgroundState::Failed, "[]", 10).await.unwrap());
    let found = store.background_call(&row.id).await.unwrap().unwrap();
    assert_eq!((found.state, found.result.as_str()), (BackgroundState::Cancelled, "{}"));
    assert_eq!(store.background_underway(&row.owner).await.unwrap(), vec![]);
}

pub(super) async fn background_calls_are_found_by_whose_they_are(store: Store) {
    let (session, other, owner) = (fresh("session"), fresh("session"), fresh("owner"));
    let rows = [background(&session, &owner), background(&session, &owner)];
    for row in rows.iter().chain([&background(&other, &owner)]) {
        store.background_started(row).await.unwrap();
    }
    store.background_ended(&rows[0].id, BackgroundState::Failed, "{}", 9).await.unwrap();
    let all = BackgroundFilter { session: Some(session), limit: 10, ..BackgroundFilter::default() };
    let ids = |found: Vec<BackgroundRow>| -> Vec<String> {
        assert!(found.iter().all(|row| row.result.is_empty()));
        found.into_iter().map(|row| row.id).collect()
    };
    let found = ids(store.background_calls(&all).await.unwrap());
    assert_eq!(found, [rows[1].id.clone(), rows[0].id.clone()]);
    let older = BackgroundFilter { before: Some(rows[1].id.clone()), ..all.clone() };
    assert_eq!(ids(store.background_calls(&older).await.unwrap()), [rows[0].id.clone()]);
    let underway = BackgroundFilter { underway: true, ..all.clone() };
    assert_eq!(ids(store.background_calls(&underway).await.unwrap()), [rows[1].id.clone()]);
    let bobs = BackgroundFilter { principal: Some("bob".into()), ..all };
    assert_eq!(store.background_calls(&bobs).await.unwrap(), vec![]);
    assert_eq!(store.background_underway(&owner).await.unwrap().len(), 2);
}

pub(super) async fn what_is_over_is_forgotten_and_what_runs_is_not(store: Store) {
    let (session, owner) = (fresh("session"), fresh("owner"));
    let rows: Vec<BackgroundRow> = (0..4).map(|_| background(&session, &owner)).collect();
    for row in &rows {
        store.background_started(row).await.unwrap();
    }
    for row in &rows[1..] {
        store.background_ended(&row.id, BackgroundState::Finished, "{}", 9).await.unwrap();
    }
    let left = || async {
        let filter = BackgroundFilter {
            session: Some(session.clone()),
            limit: 10,
            ..BackgroundFilter::default()
        };
        let found = store.background_calls(&filter).await.unwrap();
        found.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    let id = |number: usize| rows[number].id.clone();
    store.forget_background(&session, 2, 50).await.unwrap();
    assert_eq!(left().await, [id(3), id(2), id(0)]);
    store.forget_background(&fresh("other"), 2, 100).await.unwrap();
    assert_eq!(left().await, [id(0)]);
}
