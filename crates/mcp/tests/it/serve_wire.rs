//! The server, message by message, as no well-behaved client would send them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

use crate::service::{DEFINITION, Desk};
use crate::support::{SOON, eventually};

/// A client that sends what it is told to.
struct Wire {
    output: Option<WriteHalf<DuplexStream>>,
    input: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Wire {
    fn to(desk: &Arc<Desk>) -> Self {
        let (line, serving) = desk.open();
        let (input, output) = tokio::io::split(line);
        Self { output: Some(output), input: BufReader::new(input).lines(), serving }
    }

    async fn legacy(desk: &Arc<Desk>, revision: &str, capabilities: Value) -> Self {
        let mut wire = Self::to(desk);
        wire.send(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": revision, "capabilities": capabilities,
            "clientInfo": {"name": "wire", "version": "1"}}}))
            .await;
        let agreed = wire.receive().await;
        assert_eq!(agreed["result"]["protocolVersion"], revision, "{agreed}");
        wire.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        wire
    }

    async fn bytes(&mut self, bytes: &[u8]) {
        let output = self.output.as_mut().unwrap();
        output.write_all(bytes).await.unwrap();
        output.write_all(b"\n").await.unwrap();
    }

    async fn send(&mut self, message: Value) {
        self.bytes(message.to_string().as_bytes()).await;
    }

    async fn line(&mut self) -> String {
        let line = tokio::time::timeout(SOON, self.input.next_line()).await;
        line.unwrap().unwrap().unwrap()
    }

    async fn receive(&mut self) -> Value {
        serde_json::from_str(&self.line().await).unwrap()
    }

    /// Sends a request of an older client and gives back its answer.
    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.send(json!({"jsonrpc": "2.0", "id": "q", "method": method, "params": params})).await;
        self.receive().await
    }

    /// The same in the form of 2026-07-28.
    async fn modern(&mut self, method: &str, mut params: Value) -> Value {
        params["_meta"] = merged(params["_meta"].take());
        self.ask(method, params).await
    }

    /// Closes the input and waits for the server's end; what it still said.
    async fn close(mut self) -> Vec<String> {
        self.output.take().unwrap().shutdown().await.unwrap();
        let mut rest = Vec::new();
        let serving = self.serving;
        while let Ok(Ok(Some(line))) = tokio::time::timeout(SOON, self.input.next_line()).await {
            rest.push(line);
        }
        tokio::time::timeout(SOON, serving).await.unwrap().unwrap().unwrap();
        rest
    }
}

fn merged(more: Value) -> Value {
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    });
    if let Value::Object(more) = more {
        meta.as_object_mut().unwrap().extend(more);
    }
    meta
}

#[tokio::test]
async fn what_is_no_request_is_answered_and_does_no_harm() {
    let mut wire = Wire::to(&Desk::new());
    for (sent, code, id) in [
        (b"{\"jsonrpc\":".as_slice(), -32700, Value::Null),
        (b"hello", -32700, Value::Null),
        (b"\xff\xfe{}", -32700, Value::Null),
        (b"5", -32600, Value::Null),
        (b"{}", -32600, Value::Null),
        (b"{\"id\":7,\"method\":[]}", -32600, json!(7)),
        (b"[]", -32600, Value::Null),
        (b"{\"id\":{\"a\":1},\"method\":\"ping\"}", -32600, json!({"a": 1})),
        (b"{\"id\":8,\"method\":\"ping\",\"params\":[1]}", -32602, json!(8)),
        (b"{\"id\":9,\"method\":\"tools/list\"}", -32602, json!(9)),
        (b"{\"id\":10,\"method\":\"server/discover\"}", -32602, json!(10)),
    ] {
        wire.bytes(sent).await;
        let answer = wire.receive().await;
        let sent = String::from_utf8_lossy(sent);
        assert_eq!(
            (&answer["error"]["code"], &answer["id"]),
            (&json!(code), &id),
            "{sent}: {answer}"
        );
    }
    wire.bytes(b"").await;
    wire.bytes(b"{\"method\":\"notifications/unheard/of\"}").await;
    wire.bytes(b"{\"id\":99,\"result\":{}}").await;
    assert_eq!(wire.ask("ping", json!({})).await["result"], json!({}));
    assert!(wire.close().await.is_empty());
}

#[tokio::test]
async fn a_huge_line_is_refused_and_the_next_one_read() {
    let mut wire = Wire::to(&Desk::new());
    let huge = [
        br#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"x":""#.as_slice(),
        &vec![b'x'; 17 << 20],
        b"\"}}",
    ]
    .concat();
    wire.bytes(&huge).await;
    let answer = wire.receive().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(3), &json!(-32600)), "{answer}");
    assert_eq!(wire.ask("ping", json!({})).await["result"], json!({}));
}

#[tokio::test]
async fn each_request_of_the_new_era_says_what_it_is() {
    let mut wire = Wire::to(&Desk::new());
    let found = wire.modern("server/discover", json!({})).await;
    let result = &found["result"];
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["supportedVersions"][0], "2026-07-28");
    assert_eq!(result["capabilities"], json!({"tools": {"listChanged": true}}));
    assert_eq!(result["instructions"], "Ask.");
    assert!(result["ttlMs"].is_u64() && result["cacheScope"] == "private", "{result}");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "desk");

    let old = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "1900-01-01"}});
    let refused = wire.modern("tools/list", old).await;
    assert_eq!(refused["error"]["code"], -32022);
    assert_eq!(refused["error"]["data"]["requested"], "1900-01-01");
    assert_eq!(refused["error"]["data"]["supported"][0], "2026-07-28");

    let silent = json!({"_meta": {"io.modelcontextprotocol/clientCapabilities": null}});
    assert_eq!(wire.modern("tools/list", silent).await["error"]["code"], -32602);

    for gone in ["ping", "logging/setLevel", "resources/subscribe", "tasks/list", "nothing"] {
        assert_eq!(wire.modern(gone, json!({})).await["error"]["code"], -32601, "{gone}");
    }
}

#[tokio::test]
async fn an_older_client_gets_the_form_it_knows() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut wire = Wire::legacy(&Desk::new(), revision, json!({})).await;
        let listed = wire.ask("tools/list", json!({})).await;
        assert!(listed["result"]["tools"].is_array());
        assert_eq!(listed["result"].as_object().unwrap().len(), 1, "{listed}");
        let called = wire.ask("tools/call", json!({"name": "echo", "arguments": {"a": 1}})).await;
        let text = json!([{"type": "text", "text": "{\"a\":1}"}]);
        assert_eq!(called["result"], json!({"content": text, "isError": false}));
        assert_eq!(wire.ask("ping", json!({})).await["result"], json!({}));
        assert_eq!(wire.ask("resources/list", json!({})).await["error"]["code"], -32601);
        // One that knows both may mix them.
        assert_eq!(wire.modern("tools/list", json!({})).await["result"]["ttlMs"], 9000);
    }
}

#[tokio::test]
async fn an_unknown_revision_is_answered_with_the_newest_of_its_era() {
    let mut wire = Wire::to(&Desk::new());
    let agreed = wire.ask("initialize", json!({"protocolVersion": "2099-01-01"})).await;
    assert_eq!(agreed["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(wire.ask("initialize", json!({})).await["error"]["code"], -32602);
}

#[tokio::test]
async fn definitions_and_results_are_passed_on_byte_for_byte() {
    let mut wire = Wire::legacy(&Desk::new(), "2025-11-25", json!({})).await;
    wire.send(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
    let first = wire.line().await;
    assert!(first.contains(DEFINITION), "{first}");
    wire.send(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
    assert_eq!(wire.line().await, first);
    let result = r#"{"odd":1.50,"content":[{"type":"image","data":"AA==","mimeType":"image/png","_meta":{"k":1}}],"structuredContent":{"b":1,"a":2},"_meta":{"z":1}}"#;
    wire.bytes(
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"raw","arguments":{result}}}}}"#)
            .as_bytes(),
    )
    .await;
    let answer = wire.line().await;
    assert!(answer.contains(result), "{answer}");
}

#[tokio::test]
async fn wrong_calls_are_refused_with_their_reason() {
    let mut wire = Wire::to(&Desk::new());
    for params in [
        json!({}),
        json!({"name": 5}),
        json!({"name": "nothing"}),
        json!({"name": "echo", "arguments": [1]}),
        json!({"name": "echo", "requestState": "forged", "inputResponses": {}}),
        json!({"name": "echo", "requestState": 7}),
    ] {
        let answer = wire.modern("tools/call", params.clone()).await;
        assert_eq!(answer["error"]["code"], -32602, "{params}: {answer}");
    }
    assert_eq!(wire.modern("tools/list", json!({"cursor": "x"})).await["error"]["code"], -32602);
}

#[tokio::test]
async fn a_batch_is_answered_where_there_are_batches() {
    let batch = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {}}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}},
        {"jsonrpc": "2.0", "id": 2, "method": "ping"},
        {"jsonrpc": "2.0", "id": 3, "method": "nothing"},
        7,
    ]);
    let mut wire = Wire::legacy(&Desk::new(), "2025-03-26", json!({})).await;
    wire.send(batch.clone()).await;
    let answers = wire.receive().await;
    let answers: Vec<String> = answers
        .as_array()
        .unwrap()
        .iter()
        .map(|one| format!("{} {}", one["id"], one["error"]["code"]))
        .collect();
    assert_eq!(answers, ["1 null", "2 null", "3 -32601", "null -32600"]);
    wire.send(json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}])).await;
    assert_eq!(wire.ask("ping", json!({})).await["result"], json!({}));

    let mut wire = Wire::legacy(&Desk::new(), "2025-06-18", json!({})).await;
    wire.send(batch).await;
    assert_eq!(wire.receive().await["error"]["code"], -32600);
}

#[tokio::test]
async fn many_requests_run_at_once_and_their_answers_do_not_mix() {
    let mut wire = Wire::legacy(&Desk::new(), "2025-11-25", json!({})).await;
    wire.send(json!({"jsonrpc": "2.0", "id": "slow", "method": "tools/call",
        "params": {"name": "count", "arguments": {}}}))
        .await;
    let text = "x".repeat(20_000);
    for id in 0..200 {
        wire.send(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "echo", "arguments": {"id": id, "text": text}}}))
            .await;
    }
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < 200 {
        let answer = wire.receive().await;
        let Some(id) = answer["id"].as_u64() else { continue };
        let echoed = answer["result"]["content"][0]["text"].as_str().unwrap();
        let echoed: Value = serde_json::from_str(echoed).unwrap();
        assert_eq!((&echoed["id"], &echoed["text"]), (&json!(id), &json!(text)));
        assert!(seen.insert(id));
    }
}

#[tokio::test]
async fn an_id_in_use_is_refused() {
    let mut wire = Wire::legacy(&Desk::new(), "2025-11-25", json!({})).await;
    let call =
        json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "sleep"}});
    wire.send(call.clone()).await;
    wire.send(call).await;
    assert_eq!(wire.receive().await["error"]["code"], -32600);
}

#[tokio::test]
async fn progress_is_told_only_to_those_who_ask() {
    for modern in [false, true] {
        let mut wire = Wire::legacy(&Desk::new(), "2025-11-25", json!({})).await;
        let mut params = json!({"name": "count", "_meta": {"progressToken": "π"}});
        if modern {
            params["_meta"] = merged(params["_meta"].take());
        }
        wire.send(json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params}))
            .await;
        let mut told = Vec::new();
        let answer = loop {
            let message = wire.receive().await;
            if message["method"] != "notifications/progress" {
                break message;
            }
            assert_eq!(message["params"]["progressToken"], "π");
            told.push(message["params"]["progress"].as_f64().unwrap());
        };
        assert_eq!(told, [1.0, 2.0, 3.0]);
        assert_eq!(answer["result"]["content"][0]["text"], "counted");
        let silent = wire.ask("tools/call", json!({"name": "count"})).await;
        assert_eq!(silent["result"]["content"][0]["text"], "counted");
    }
}

#[tokio::test]
async fn a_cancelled_call_ends_and_is_not_answered() {
    let desk = Desk::new();
    let mut wire = Wire::legacy(&desk, "2025-11-25", json!({})).await;
    for id in [json!(5), json!("six")] {
        wire.send(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "sleep"}}))
            .await;
        wire.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": id, "reason": "enough"}}))
            .await;
    }
    assert_eq!(wire.ask("ping", json!({})).await["id"], "q");
    eventually("both were cancelled", || desk.cancelled.load(Ordering::SeqCst) == 2).await;
    assert!(wire.close().await.is_empty());
}

#[tokio::test]
async fn the_end_of_the_input_cancels_what_runs_and_ends_the_server() {
    let desk = Desk::new();
    let mut wire = Wire::legacy(&desk, "2025-11-25", json!({})).await;
    for id in 0..3 {
        wire.send(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "sleep"}}))
            .await;
    }
    assert_eq!(wire.ask("ping", json!({})).await["id"], "q");
    assert!(wire.close().await.is_empty());
    assert_eq!(desk.cancelled.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_question_goes_round_in_the_new_era() {
    let mut wire = Wire::to(&Desk::new());
    let asked = wire.modern("tools/call", json!({"name": "ask", "arguments": {"a": 1}})).await;
    let result = &asked["result"];
    assert_eq!(result["resultType"], "input_required");
    let request = &result["inputRequests"]["question"];
    assert_eq!(request["method"], "elicitation/create");
    assert_eq!(request["params"]["message"], "May I?");
    assert_eq!(request["params"]["mode"], "form");
    let retry = |state: &Value, arguments: Value, responses: Value| json!({"name": "ask", "arguments": arguments, "requestState": state, "inputResponses": responses});
    let state = &result["requestState"];
    let accept = json!({"question": {"action": "accept", "content": {"decision": "yes"}}});
    let answered = wire.modern("tools/call", retry(state, json!({"a": 1}), accept.clone())).await;
    assert_eq!(answered["result"]["content"][0]["text"], r#"accept {"decision":"yes"}"#);
    for (action, said) in [("decline", "decline"), ("cancel", "cancel"), ("whatever", "cancel")] {
        let responses = json!({"question": {"action": action}});
        let answered = wire.modern("tools/call", retry(state, json!({"a": 1}), responses)).await;
        assert_eq!(answered["result"]["content"][0]["text"], said);
    }
    // No answer: the question is asked again. Another call: the state is worth nothing.
    let again = wire.modern("tools/call", retry(state, json!({"a": 1}), json!({}))).await;
    assert_eq!(again["result"]["resultType"], "input_required");
    let other = wire.modern("tools/call", retry(state, json!({"a": 2}), accept)).await;
    assert_eq!(other["error"]["code"], -32602, "{other}");
}

#[tokio::test]
async fn a_question_is_a_request_to_an_older_client() {
    for (revision, mode) in [("2025-06-18", Value::Null), ("2025-11-25", json!("form"))] {
        let mut wire = Wire::legacy(&Desk::new(), revision, json!({"elicitation": {}})).await;
        let call =
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask"}});
        for (reply, said) in [
            (
                json!({"result": {"action": "accept", "content": {"decision": "no"}}}),
                r#"accept {"decision":"no"}"#,
            ),
            (json!({"result": {"action": "decline"}}), "decline"),
            (json!({"result": {}}), "cancel"),
            (json!({"error": {"code": -32603, "message": "no screen"}}), "cancel"),
        ] {
            wire.send(call.clone()).await;
            let asked = wire.receive().await;
            assert_eq!(asked["method"], "elicitation/create");
            assert_eq!(asked["params"]["mode"], mode);
            let mut reply = reply;
            reply["jsonrpc"] = json!("2.0");
            reply["id"] = asked["id"].clone();
            wire.send(reply).await;
            let answer = wire.receive().await;
            assert_eq!(answer["result"]["content"][0]["text"], said, "{answer}");
        }
    }
}

#[tokio::test]
async fn nobody_is_asked_who_did_not_say_that_he_can_be() {
    for (revision, capabilities) in [
        ("2025-11-25", json!({})),
        ("2025-11-25", json!({"elicitation": {"url": {}}})),
        ("2025-03-26", json!({"elicitation": {}})),
    ] {
        let mut wire = Wire::legacy(&Desk::new(), revision, capabilities).await;
        let answer = wire.ask("tools/call", json!({"name": "ask"})).await;
        assert_eq!(answer["result"]["content"][0]["text"], "nobody can be asked");
    }
    let mut wire = Wire::to(&Desk::new());
    let mut params = json!({"name": "ask"});
    params["_meta"] = json!({"io.modelcontextprotocol/clientCapabilities": {}});
    let answer = wire.modern("tools/call", params).await;
    assert_eq!(answer["result"]["content"][0]["text"], "nobody can be asked");
}

#[tokio::test]
async fn a_question_that_nobody_answers_is_taken_back() {
    let desk = Desk::with_questions_of(Duration::from_millis(50));
    let mut wire = Wire::legacy(&desk, "2025-11-25", json!({"elicitation": {}})).await;
    wire.send(
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask"}}),
    )
    .await;
    let asked = wire.receive().await;
    let taken_back = wire.receive().await;
    assert_eq!(taken_back["method"], "notifications/cancelled");
    assert_eq!(taken_back["params"]["requestId"], asked["id"]);
    assert_eq!(wire.receive().await["result"]["content"][0]["text"], "cancel");
}

#[tokio::test]
async fn changes_are_told_to_those_who_listen() {
    let desk = Desk::new();
    let mut wire = Wire::to(&desk);
    let params = json!({"_meta": merged(Value::Null),
        "notifications": {"toolsListChanged": true, "promptsListChanged": true}});
    let listen =
        json!({"jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": params});
    wire.send(listen).await;
    let accepted = wire.receive().await;
    let key = "io.modelcontextprotocol/subscriptionId";
    assert_eq!(accepted["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(accepted["params"]["notifications"], json!({"toolsListChanged": true}));
    assert_eq!(accepted["params"]["_meta"][key], "l");
    for _ in 0..2 {
        desk.changes.send_modify(|count| *count += 1);
        let told = wire.receive().await;
        assert_eq!(told["method"], "notifications/tools/list_changed");
        assert_eq!(told["params"]["_meta"][key], "l");
    }
    wire.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "l"}}))
        .await;
    wire.modern("tools/list", json!({})).await;
    desk.changes.send_modify(|count| *count += 1);
    assert!(wire.close().await.is_empty());

    // An older client is told without asking, once it is ready.
    let mut wire = Wire::legacy(&desk, "2025-06-18", json!({})).await;
    wire.ask("ping", json!({})).await;
    desk.changes.send_modify(|count| *count += 1);
    let told = wire.receive().await;
    assert_eq!(told["method"], "notifications/tools/list_changed");
}
