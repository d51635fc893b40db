use super::*;

fn one(text: &str) -> Incoming<'_> {
    parse(text).unwrap().remove(0)
}

#[test]
fn the_four_kinds_are_told_apart() {
    assert!(matches!(
        one(r#"{"jsonrpc":"2.0","id":7,"result":{"a":1}}"#),
        Incoming::Response { id: Some(7), outcome: Ok(raw) } if raw.get() == r#"{"a":1}"#
    ));
    assert!(matches!(
        one(r#"{"id":7,"error":{"code":-32601,"message":"no"}}"#),
        Incoming::Response { id: Some(7), outcome: Err(Failure { code: -32601, .. }) }
    ));
    assert!(matches!(one(r#"{"id":"x","method":"ping"}"#), Incoming::Request { .. }));
    assert!(matches!(one(r#"{"method":"notifications/x"}"#), Incoming::Notification { .. }));
    assert!(matches!(
        one(r#"{"id":1,"result":null}"#),
        Incoming::Response { outcome: Ok(raw), .. } if raw.get() == "null"
    ));
}

#[test]
fn what_is_no_message_is_malformed() {
    for text in ["", "hello", "1", "null", "{}", "[]", "[1]", r#"{"id":1}"#, r#"{"method":5}"#] {
        assert_eq!(parse(text).err(), Some(Malformed), "{text}");
    }
}

#[test]
fn an_id_of_another_type_answers_nothing() {
    for id in ["\"7\"", "7.5", "{}", "99999999999999999999"] {
        let text = format!(r#"{{"id":{id},"result":1}}"#);
        assert!(matches!(one(&text), Incoming::Response { id: None, .. }), "{text}");
    }
}

#[test]
fn a_batch_is_read_as_its_parts() {
    assert_eq!(parse(r#"[{"method":"a"},{"id":1,"result":2}]"#).unwrap().len(), 2);
}

#[test]
fn a_broken_error_object_keeps_its_words() {
    let Incoming::Response { outcome: Err(failure), .. } = one(r#"{"id":1,"error":"boom"}"#) else {
        panic!("not an error")
    };
    assert_eq!((failure.code, failure.message.as_str()), (code::INTERNAL, "\"boom\""));
    let Incoming::Response { outcome: Err(failure), .. } =
        one(r#"{"id":1,"error":{"code":"x","message":{"a":1},"data":[1]}}"#)
    else {
        panic!("not an error")
    };
    assert_eq!(failure.message, r#"{"a":1}"#);
    assert_eq!(failure.data.unwrap().get(), "[1]");
}

#[test]
fn what_is_written_is_one_line_and_reads_back() {
    let pretty = "{\n  \"text\": \"a\\nb\"\n}";
    let text = request(3, "tools/call", pretty);
    assert!(!text.contains('\n'));
    let Incoming::Request { params, .. } = one(&text) else { panic!("not a request") };
    let value: serde_json::Value = serde_json::from_str(params.unwrap().get()).unwrap();
    assert_eq!(value, serde_json::json!({"text": "a\nb"}));
}

#[test]
fn deep_nesting_is_refused_before_anyone_recurses() {
    let deep = format!(r#"{{"id":1,"result":{}{}}}"#, "[".repeat(200_000), "]".repeat(200_000));
    assert!(parse(&deep).is_err());
}
