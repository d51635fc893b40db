//! Whatever a client sends, the server answers in the protocol and goes on.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::service::Desk;
use crate::support::SOON;

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let name = prop_oneof![
            Just("action".to_owned()),
            Just("content".to_owned()),
            Just("question".to_owned()),
            Just("toolsListChanged".to_owned()),
            Just("progressToken".to_owned()),
            ".{0,6}",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(name, inner, 0..4)
                .prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

/// An object with some of these members, now and then a right one.
fn object(members: Vec<(&'static str, Value)>) -> impl Strategy<Value = Value> {
    let members: Vec<_> = members
        .into_iter()
        .map(|(name, right)| {
            let one =
                prop_oneof![2 => Just(Some(right)), 1 => value().prop_map(Some), 1 => Just(None)];
            one.prop_map(move |value| value.map(|value| (name.to_owned(), value)))
        })
        .collect();
    members.prop_map(|members| Value::from(members.into_iter().flatten().collect::<Map<_, _>>()))
}

fn message() -> impl Strategy<Value = String> {
    let meta = object(vec![
        ("io.modelcontextprotocol/protocolVersion", json!("2026-07-28")),
        ("io.modelcontextprotocol/clientCapabilities", json!({"elicitation": {}})),
        ("progressToken", json!(1)),
    ]);
    let tool = prop_oneof![Just("echo"), Just("raw"), Just("ask"), Just("none")];
    let params = (
        meta,
        tool,
        object(vec![
            ("arguments", json!({})),
            ("requestState", json!("e30.e30")),
            ("inputResponses", json!({"question": {"action": "accept"}})),
            ("notifications", json!({"toolsListChanged": true})),
            ("protocolVersion", json!("2025-03-26")),
            ("capabilities", json!({"elicitation": {}})),
            ("requestId", json!(3)),
            ("cursor", Value::Null),
        ]),
    )
        .prop_map(|(meta, tool, mut params)| {
            params["_meta"] = meta;
            params["name"] = json!(tool);
            params
        });
    let method = prop_oneof![
        Just(json!("initialize")),
        Just(json!("server/discover")),
        Just(json!("tools/list")),
        Just(json!("tools/call")),
        Just(json!("subscriptions/listen")),
        Just(json!("notifications/cancelled")),
        Just(json!("notifications/initialized")),
        value(),
    ];
    let id = prop_oneof![(0..5_i64).prop_map(Value::from), value()];
    let whole = (params, method, id, any::<bool>()).prop_map(|(params, method, id, answers)| {
        if answers {
            json!({"jsonrpc": "2.0", "id": id, "result": params})
        } else {
            json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        }
    });
    prop_oneof![
        6 => whole.prop_map(|message| message.to_string()),
        1 => prop::collection::vec(value(), 0..4).prop_map(|batch| Value::from(batch).to_string()),
        1 => "[^\n]{0,40}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn it_answers_in_the_protocol_and_goes_on(messages in prop::collection::vec(message(), 1..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (line, serving) = Desk::with_questions_of(std::time::Duration::from_millis(50)).open();
            let (input, mut output) = tokio::io::split(line);
            let mut lines = BufReader::new(input).lines();
            for message in messages {
                output.write_all(format!("{message}\n").as_bytes()).await.unwrap();
            }
            let last = json!({"jsonrpc": "2.0", "id": "the last", "method": "ping"});
            output.write_all(format!("{last}\n").as_bytes()).await.unwrap();
            loop {
                let line = tokio::time::timeout(SOON, lines.next_line()).await;
                let line = line.unwrap().unwrap().unwrap();
                let all: Value = serde_json::from_str(&line).unwrap();
                let all = all.as_array().cloned().unwrap_or_else(|| vec![all]);
                assert!(all.iter().all(|message| message["jsonrpc"] == "2.0"), "{line}");
                if all.iter().any(|message| message["id"] == "the last") {
                    break;
                }
            }
            drop((output, lines));
            tokio::time::timeout(SOON, serving).await.unwrap().unwrap().unwrap();
        });
    }
}
