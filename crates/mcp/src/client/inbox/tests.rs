use super::*;
use crate::censor::Censor;

fn inbox() -> Inbox {
    let (events, _) = mpsc::unbounded_channel();
    Inbox::new(Journal::new(events, Censor::default()))
}

#[test]
fn the_first_answer_counts() {
    let inbox = inbox();
    let mut ticket = inbox.expect(None).unwrap();
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
    for method in ["roots/list", "sampling/createMessage", "elicitation/create", "x/y"] {
        let refused = inbox.receive(&format!(r#"{{"id":4,"method":"{method}"}}"#), None);
        assert!(refused[0].contains(r#""code":-32601"#), "{refused:?}");
    }
    inbox.set_modern();
    assert!(inbox.receive(r#"{"id":1,"method":"ping"}"#, None).is_empty());
}

#[test]
fn an_error_without_an_id_is_about_the_request_in_whose_stream_it_came() {
    let inbox = inbox();
    let mut ticket = inbox.expect(None).unwrap();
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
    let ticket = inbox.expect(Some(to)).unwrap();
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
    let ticket = inbox.expect(None).unwrap();
    inbox.end("first", false);
    inbox.end("second", true);
    assert!(matches!(ticket.answer.await, Ok(Err(Error::Lost(_)))));
    assert!(matches!(inbox.expect(None), Err(Error::Connect(why)) if why == "first"));
    assert_eq!(inbox.ended().await, "first");
}
