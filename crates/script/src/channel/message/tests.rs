use std::sync::Arc;

use super::*;

fn kind_and_id(line: &str) -> Option<(u64, Kind)> {
    match read(line.as_bytes()) {
        Message::Wrong { id, error } => Some((id, error.kind)),
        _ => None,
    }
}

#[test]
fn a_call_is_read_and_its_arguments_are_kept_as_they_came() {
    let line =
        r#"{"id":7,"raw":true,"tool":"a__b","args":{"z":1, "a":1e400,"n":123456789012345678901}}"#;
    let Message::Call(request) = read(line.as_bytes()) else { panic!("not a call") };
    assert_eq!((request.id, request.raw, request.tool.as_str()), (7, true, "a__b"));
    assert_eq!(request.args.get(), r#"{"z":1, "a":1e400,"n":123456789012345678901}"#);
}

#[test]
fn what_is_wrong_with_a_call_is_answered_to_that_call() {
    let table = [
        (r#"{"id":1,"tool":"t","args":[]}"#, Kind::InvalidArguments),
        (r#"{"id":1,"tool":"t","args":null}"#, Kind::InvalidArguments),
        (r#"{"id":1,"tool":"t"}"#, Kind::InvalidArguments),
        (r#"{"id":1,"tool":5,"args":{}}"#, Kind::InvalidArguments),
        (r#"{"id":1,"tool":"t","args":{"a":NaN}}"#, Kind::InvalidArguments),
        (r#"{"id":1,"tool":"t","args":{"a""#, Kind::InvalidArguments),
    ];
    for (line, kind) in table {
        assert_eq!(kind_and_id(line), Some((1, kind)), "{line}");
    }
    let long = format!(r#"{{"id":1,"tool":"{}","args":{{}}}}"#, "t".repeat(301));
    assert_eq!(kind_and_id(&long), Some((1, Kind::UnknownTool)));
}

#[test]
fn nesting_is_bounded_without_recursion() {
    let nested = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        format!(r#"{{"id":1,"tool":"t","args":{{"a":{open}{close}}}}}"#)
    };
    assert_eq!(kind_and_id(&nested(DEEPEST - 1)), None);
    assert_eq!(kind_and_id(&nested(DEEPEST)), Some((1, Kind::InvalidArguments)));
    assert_eq!(kind_and_id(&nested(5_000_000)), Some((1, Kind::InvalidArguments)));
    let brackets_in_text = format!(r#"{{"a":"\"{}"}}"#, "[".repeat(1000));
    assert!(!is_deeper_than(DEEPEST, &brackets_in_text));
}

#[test]
fn what_cannot_be_understood_is_nothing() {
    let table: [&[u8]; 8] = [
        b"",
        b"garbage",
        b"\xff\xfe{",
        b"[1,2]",
        br#"{"id":-1,"tool":"t","args":{}}"#,
        br#"{"id":99999999999999999999999,"tool":"t","args":{}}"#,
        br#"{"progress":{"done":"many"}}"#,
        br#"{"tool":"t","args":{}}"#,
    ];
    for line in table {
        assert!(matches!(read(line), Message::Unreadable), "{:?}", String::from_utf8_lossy(line));
    }
    let depth = vec![b'['; 1_000_000];
    assert!(matches!(read(&depth), Message::Unreadable));
}

#[test]
fn a_request_of_which_only_the_beginning_is_known_is_answered_by_its_id() {
    let Message::Wrong { id, error } = too_long(br#"{"id":12,"tool":"t","#, 64 << 20) else {
        panic!("not answered")
    };
    assert_eq!((id, error.kind), (12, Kind::InvalidArguments));
    assert!(error.message.contains("64 MB"), "{}", error.message);
    assert!(matches!(too_long(b"xxxx", 64 << 20), Message::Unreadable));
}

#[test]
fn replies_are_one_line_each_and_hold_what_was_asked_for() {
    let raw = |text: &str| Some(Arc::from(RawValue::from_string(text.to_owned()).unwrap()));
    let reply = Reply {
        text: "a\nb".into(),
        structured: raw("{\n \"b\": 1,\r\n\"a\": \"x\\ny\"}"),
        content: raw("[{}]"),
        is_error: false,
    };
    let written = |raw, outcome: Result<Reply, ToolError>| {
        let mut out = Vec::new();
        write_reply(3, raw, &outcome, &mut out);
        String::from_utf8(out).unwrap()
    };
    let structured = r#""structured":{  "b": 1,  "a": "x\ny"}"#;
    assert_eq!(written(false, Ok(reply.clone())), format!("{{\"id\":3,{structured}}}\n"));
    assert_eq!(
        written(true, Ok(reply.clone())),
        format!("{{\"id\":3,\"text\":\"a\\nb\",{structured},\"content\":[{{}}]}}\n")
    );
    let failed = Reply { structured: None, content: None, is_error: true, ..reply };
    assert_eq!(written(false, Ok(failed)), "{\"id\":3,\"text\":\"a\\nb\",\"is_error\":true}\n");
    let error = ToolError { kind: Kind::NotListed, message: "no".into(), retryable: false };
    assert_eq!(
        written(false, Err(error)),
        "{\"id\":3,\"error\":{\"kind\":\"not_listed\",\"message\":\"no\",\"retryable\":false}}\n"
    );
}

#[test]
fn a_forged_traceback_is_no_longer_than_a_real_one() {
    let line = format!(r#"{{"end":{{"traceback":"{}"}}}}"#, "é".repeat(1 << 20));
    let Message::End(end) = read(line.as_bytes()) else { panic!("not an end") };
    assert_eq!(end.shortened().traceback.chars().count(), 10_000);
}
