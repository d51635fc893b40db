//! Questions and their answers: asked once, answered once, used once, and not for ever.

use super::fresh;
use crate::*;

fn question(key: &str, now: i64) -> NewApproval {
    NewApproval {
        id: fresh("approval"),
        key: key.to_owned(),
        principal: "ann".into(),
        profile: "default".into(),
        session: "s".into(),
        tool: "t".into(),
        payload: "{\"code\":\"päyload ✓\"}".into(),
        created_ms: now,
        expires_ms: now + 100,
    }
}

async fn take(store: &Store, key: &str, now: i64) -> Option<Answer> {
    store.take_answer(key, now).await.unwrap().map(|taken| taken.answer)
}

fn yes() -> Answer {
    Answer { kind: AnswerKind::Once, reason: String::new(), by: "bob".into() }
}

pub(super) async fn a_question_is_asked_once_and_its_answer_used_once(store: Store) {
    let key = fresh("key");
    let first = store.ask(&question(&key, 1000)).await.unwrap();
    let again = store.ask(&question(&key, 1001)).await.unwrap();
    assert!(first.is_new && !again.is_new);
    let (first, again) = (first.row, again.row);
    assert_eq!(again, ApprovalRow { expires_ms: 1101, ..first.clone() }, "it lasts longer");
    assert_eq!(first.state, ApprovalState::Open);
    assert_eq!(first.payload, "{\"code\":\"päyload ✓\"}");
    assert_eq!(take(&store, &key, 1002).await, None);
    store.answer(&first.id, &yes(), None, 1003, 1103).await.unwrap();
    assert!(store.open_approvals(1004).await.unwrap().iter().all(|row| row.id != first.id));
    assert_eq!(take(&store, &fresh("other"), 1004).await, None);
    assert_eq!(take(&store, &key, 1004).await, Some(yes()));
    assert_eq!(take(&store, &key, 1004).await, None);
    let asked_again = store.ask(&question(&key, 1005)).await.unwrap().row;
    assert_ne!(asked_again.id, first.id);
}

pub(super) async fn an_answer_given_back_is_found_again_until_it_expires(store: Store) {
    let key = fresh("key");
    let asked = store.ask(&question(&key, 1000)).await.unwrap().row;
    // What nobody has taken, or nobody has answered, is not made an answer.
    store.give_back(&asked.id).await.unwrap();
    assert_eq!(take(&store, &key, 1001).await, None);
    store.answer(&asked.id, &yes(), None, 1002, 1100).await.unwrap();
    let taken = store.take_answer(&key, 1003).await.unwrap().unwrap();
    assert_eq!((&taken.id, &taken.answer), (&asked.id, &yes()));
    store.give_back(&taken.id).await.unwrap();
    assert_eq!(take(&store, &key, 1099).await, Some(yes()));
    assert_eq!(take(&store, &key, 1099).await, None);
    store.give_back(&taken.id).await.unwrap();
    assert_eq!(take(&store, &key, 1100).await, None);
}

pub(super) async fn of_two_answers_the_first_wins(store: Store) {
    let key = fresh("key");
    let asked = store.ask(&question(&key, 1000)).await.unwrap().row;
    let no = Answer { kind: AnswerKind::Deny, reason: "not today".into(), by: "eve".into() };
    store.answer(&asked.id, &no, None, 1001, 1101).await.unwrap();
    let late = store.answer(&asked.id, &yes(), None, 1002, 1102).await.unwrap_err();
    assert!(late.to_string().contains("answered already: eve denied it"), "{late}");
    let filter = |state| ApprovalFilter { state, limit: 1_000, ..ApprovalFilter::default() };
    let answered = store.approvals(&filter(Some(ApprovalState::Answered))).await.unwrap();
    let found = answered.iter().find(|row| row.id == asked.id).unwrap();
    assert_eq!((&found.answer, found.answered_ms), (&Some(no.clone()), 1001));
    let open = store.approvals(&filter(Some(ApprovalState::Open))).await.unwrap();
    assert!(open.iter().all(|row| row.id != asked.id && row.answer.is_none()));
    assert_eq!(take(&store, &key, 1003).await, Some(no));
    let unknown = store.answer(&fresh("none"), &yes(), None, 1002, 1102).await.unwrap_err();
    assert!(unknown.to_string().contains("there is no approval"), "{unknown}");
}

pub(super) async fn of_two_takers_one_gets_the_answer(store: Store) {
    let key = fresh("key");
    let asked = store.ask(&question(&key, 1000)).await.unwrap().row;
    store.answer(&asked.id, &yes(), None, 1001, 1101).await.unwrap();
    let takers: Vec<_> = (0..8)
        .map(|_| {
            let (store, key) = (store.clone(), key.clone());
            tokio::spawn(async move { take(&store, &key, 1002).await })
        })
        .collect();
    let mut taken = 0;
    for taker in takers {
        taken += usize::from(taker.await.unwrap().is_some());
    }
    assert_eq!(taken, 1);
}

pub(super) async fn questions_and_answers_expire(store: Store) {
    let key = fresh("key");
    let asked = store.ask(&question(&key, 1000)).await.unwrap().row;
    let late = store.answer(&asked.id, &yes(), None, 1100, 1200).await.unwrap_err();
    assert!(late.to_string().contains("expired"), "{late}");
    let again = store.ask(&question(&key, 1100)).await.unwrap();
    assert!(again.expired.iter().any(|row| row.id == asked.id));
    let again = again.row;
    assert_ne!(again.id, asked.id);
    let noticed = store.expire_approvals(1100).await.unwrap();
    assert!(noticed.iter().all(|row| row.id != asked.id), "it is noticed once");
    store.answer(&again.id, &yes(), None, 1101, 1150).await.unwrap();
    assert_eq!(take(&store, &key, 1150).await, None);
}

pub(super) async fn a_void_question_cannot_be_answered(store: Store) {
    let key = fresh("key");
    let asked = store.ask(&question(&key, 1000)).await.unwrap().row;
    store.void_approval(&asked.id).await.unwrap();
    let error = store.answer(&asked.id, &yes(), None, 1001, 1101).await.unwrap_err();
    assert!(error.to_string().contains("has changed"), "{error}");
    assert_eq!(take(&store, &key, 1002).await, None);
}

pub(super) async fn a_session_allows_one_definition(store: Store) {
    let (key, session) = (fresh("key"), fresh("session"));
    let asked = store.ask(&question(&key, 1000)).await.unwrap().row;
    let allow =
        SessionAllow { session: session.clone(), tool: "t".into(), definition: "d1".into() };
    let answer = Answer { kind: AnswerKind::Session, reason: String::new(), by: "bob".into() };
    store.answer(&asked.id, &answer, Some(&allow), 1001, 1101).await.unwrap();
    assert!(store.session_allows(&session, "t", "d1").await.unwrap());
    assert!(!store.session_allows(&session, "t", "d2").await.unwrap());
    assert!(!store.session_allows(&session, "u", "d1").await.unwrap());
    assert!(!store.session_allows(&fresh("other"), "t", "d1").await.unwrap());
}
