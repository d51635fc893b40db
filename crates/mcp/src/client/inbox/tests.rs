use std::time::Duration;

use super::*;
use crate::censor::Censor;
use crate::client::Given;

fn inbox() -> Inbox {
    let (events, _) = mpsc::unbounded_channel();
    Inbox::new(Journal::new(events, Censor::default()))
}

#[test]
fn the_first_answer_counts() {
    let inbox = inbox();
    let mut ticket = inbox.expect(None, None).unwrap();
    inbox.receive(&format!(r#"{{"id":{},"result":1}}"#, ticket.id + 1), None);
    inbox.receive(&format!(r#"{{"id":"{}","result":1}}"#, ticket.id), None);
    assert!(ticket.answer.try_recv().is_err());
    inbox.receive(&format!(r#"{{"id":{},"result":1}}"#, ticket.id), None);
    inbox.receive(&format!(r#"{{"id":{},"result":2}}"#, ticket.id), None);
    assert_eq!(ticket.answer.try_recv().unwrap().unwrap().get(), "1");
}

#[test]
fn a_server_may_ping_and_nothing_more() {
    let inbox = inbox();
    let pong = inbox.receive(r#"{"id":"p-1","method":"ping"}"#, None);
    assert_eq!(pong, [r#"{"jsonrpc":"2.0","id":"p-1","result":{}}"#]);
    // Nobody is there to be asked.
    let refused = inbox.receive(r#"{"id":4,"method":"elicitation/create"}"#, None);
    assert!(refused[0].contains(r#"{"action":"cancel"}"#), "{refused:?}");
    for method in ["roots/list", "sampling/createMessage", "x/y"] {
        let refused = inbox.receive(&format!(r#"{{"id":4,"method":"{method}"}}"#), None);
        assert!(refused[0].contains(r#""code":-32601"#), "{refused:?}");
    }
    inbox.set_modern();
    assert!(inbox.receive(r#"{"id":1,"method":"ping"}"#, None).is_empty());
}

#[test]
fn an_error_without_an_id_is_about_the_request_in_whose_stream_it_came() {
    let inbox = inbox();
    let mut ticket = inbox.expect(None, None).unwrap();
    inbox.receive(r#"{"id":null,"error":{"code":1,"message":"m"}}"#, None);
    assert!(ticket.answer.try_recv().is_err());
    inbox.receive(r#"{"id":null,"result":{}}"#, Some(ticket.id));
    assert!(ticket.answer.try_recv().is_err());
    inbox.receive(r#"{"id":null,"error":{"code":1,"message":"m"}}"#, Some(ticket.id));
    assert!(matches!(ticket.answer.try_recv(), Ok(Err(Error::Rpc { code: 1, .. }))));
}

#[test]
fn progress_rises_and_does_not_flood() {
    let inbox = inbox();
    let (to, mut from) = mpsc::unbounded_channel();
    let ticket = inbox.expect(Some(to), None).unwrap();
    for step in [1.0, 0.5, 1.0, 2.0] {
        let params = format!(r#"{{"progressToken":{},"progress":{step}}}"#, ticket.id);
        inbox.receive(&message::notification("notifications/progress", &params), None);
    }
    let mut seen = Vec::new();
    while let Ok(progress) = from.try_recv() {
        seen.push(progress.progress);
    }
    assert_eq!(seen, [1.0, 2.0]);
    for step in 3..10_000 {
        let params = format!(r#"{{"progressToken":{},"progress":{step}}}"#, ticket.id);
        inbox.receive(&message::notification("notifications/progress", &params), None);
    }
    let mut count = 0;
    while from.try_recv().is_ok() {
        count += 1;
    }
    assert!(count < 1_000, "{count}");
}

#[tokio::test]
async fn after_the_end_nothing_waits() {
    let inbox = inbox();
    let ticket = inbox.expect(None, None).unwrap();
    inbox.end("first", false);
    inbox.end("second", true);
    assert!(matches!(ticket.answer.await, Ok(Err(Error::Lost(_)))));
    assert!(matches!(inbox.expect(None, None), Err(Error::Connect(why)) if why == "first"));
    assert_eq!(inbox.ended().await, "first");
}

#[test]
fn the_last_progress_of_a_flood_is_not_lost() {
    let inbox = inbox();
    let (to, mut from) = mpsc::unbounded_channel();
    let ticket = inbox.expect(Some(to), None).unwrap();
    for step in 1..=1_000 {
        let params = format!(r#"{{"progressToken":{},"progress":{step}}}"#, ticket.id);
        inbox.receive(&message::notification("notifications/progress", &params), None);
    }
    inbox.receive(&format!(r#"{{"id":{},"result":1}}"#, ticket.id), None);
    let mut last = None;
    while let Ok(progress) = from.try_recv() {
        last = Some(progress.progress);
    }
    assert_eq!(last, Some(1000.0));
}

fn asks(group: &str) -> (Asks, mpsc::Receiver<crate::client::Asked>) {
    let (to, asked) = mpsc::channel(8);
    (Asks { group: group.into(), forms: true, urls: false, to }, asked)
}

const ASK: &str = r#"{"id":"q","method":"elicitation/create","params":{"message":"Which?"}}"#;

#[tokio::test]
async fn a_question_goes_to_the_one_it_can_only_be_for() {
    let inbox = inbox();
    let (mine, mut to_me) = asks("me");
    let (yours, mut to_you) = asks("you");
    let first = inbox.expect(None, Some(Some(mine.clone()))).unwrap();
    let _list = inbox.expect(None, None).unwrap();
    assert!(inbox.receive(ASK, None).is_empty());
    let asked = to_me.recv().await.unwrap();
    assert!(asked.params.get().contains("Which?"));
    asked.answer(Given::Decline);
    let mut answers = inbox.answers().unwrap();
    let answer = answers.recv().await.unwrap();
    assert!(answer.contains(r#""id":"q","result":{"action":"decline"}"#), "{answer}");

    // Now it could be somebody else's: it is told to neither, and both calls know.
    let second = inbox.expect(None, Some(Some(yours))).unwrap();
    assert!(inbox.receive(ASK, None)[0].contains("cancel"));
    assert!(to_me.try_recv().is_err() && to_you.try_recv().is_err());
    assert!(first.refused().unwrap().contains("Which?") && second.refused().is_some());
    // In the stream of one of them there is no doubt.
    assert!(inbox.receive(ASK, Some(second.id)).is_empty());
    assert!(to_you.recv().await.is_some() && to_me.try_recv().is_err());
    assert!(first.refused().is_none());
    // What is put aside is no answer.
    assert!(answers.recv().await.unwrap().contains("cancel"));
    inbox.forget(second.id);

    // A call of one's own that nobody can be asked about, such as a script's.
    let third = inbox.expect(None, Some(None)).unwrap();
    assert!(inbox.receive(ASK, None)[0].contains("cancel"));
    inbox.forget(third.id);
    // What cannot be shown is not passed on.
    let url = ASK.replace(r#""message""#, r#""mode":"url","message""#);
    assert!(inbox.receive(&url, None)[0].contains("cancel"));
    // Withdrawn, and asked too often.
    assert!(inbox.receive(ASK, None).is_empty());
    let asked = to_me.recv().await.unwrap();
    assert!(inbox.receive(ASK, None)[0].contains("cancel"), "the same id again");
    inbox.receive(r#"{"method":"notifications/cancelled","params":{"requestId":"q"}}"#, None);
    tokio::time::timeout(Duration::from_secs(60), asked.withdrawn.cancelled()).await.unwrap();
}
