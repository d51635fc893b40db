//! rmcp, an independent implementation, as the client: both ways of beginning.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult,
    ElicitationAction, Implementation, ProgressNotificationParam, ProtocolVersion,
    ServerNotification, SubscriptionFilter,
};
use rmcp::service::{NotificationContext, RequestContext, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient};
use serde_json::json;

use crate::service::Desk;
use crate::support::{SOON, eventually};

/// A client with a person who says yes.
#[derive(Clone, Default)]
struct Person {
    asked: Arc<Mutex<Vec<String>>>,
    progress: Arc<AtomicUsize>,
    changes: Arc<AtomicUsize>,
}

impl ClientHandler for Person {
    fn get_info(&self) -> ClientConfig {
        let capabilities =
            serde_json::from_value::<ClientCapabilities>(json!({"elicitation": {"form": {}}}));
        ClientConfig::new(capabilities.unwrap(), Implementation::new("person", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, .. } = request else {
            return Ok(ElicitResult::new(ElicitationAction::Cancel));
        };
        self.asked.lock().unwrap().push(message);
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({"decision": "yes"})))
    }

    async fn on_progress(
        &self,
        _params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.progress.fetch_add(1, Ordering::SeqCst);
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }
}

fn modes() -> [(ClientLifecycleMode, &'static str); 3] {
    [
        (ClientLifecycleMode::Initialize, "2025-11-25"),
        (
            ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            },
            "2026-07-28",
        ),
        (
            ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
                legacy_version: Some(ProtocolVersion::V_2025_11_25),
            },
            "2026-07-28",
        ),
    ]
}

/// How a client gets to the desk.
#[derive(Clone, Copy, Debug)]
enum Way {
    Lines,
    Http,
}

async fn connected(
    desk: &Arc<Desk>,
    mode: ClientLifecycleMode,
    way: Way,
) -> (RunningService<RoleClient, Person>, Person) {
    let person = Person::default();
    let service = person.clone();
    let client = match way {
        Way::Lines => {
            let (line, _) = desk.open();
            tokio::time::timeout(SOON, service.serve_with_lifecycle(line, mode)).await
        }
        Way::Http => {
            let transport = StreamableHttpClientTransport::from_uri(desk.open_http().await);
            tokio::time::timeout(SOON, service.serve_with_lifecycle(transport, mode)).await
        }
    };
    (client.unwrap().unwrap(), person)
}

async fn it_lists_calls_asks_and_is_told(way: Way) {
    for (mode, revision) in modes() {
        let desk = Desk::new();
        let (client, person) = connected(&desk, mode, way).await;
        let info = client.peer_info().unwrap();
        assert_eq!(info.protocol_version.as_str(), revision);
        assert_eq!(info.instructions.as_deref(), Some("Ask."));

        let tools = client.list_all_tools().await.unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
        assert_eq!(names, ["echo", "ask", "count", "raw", "sleep"]);

        let call = |name: &'static str| client.call_tool(CallToolRequestParams::new(name));
        let text =
            |result: rmcp::model::CallToolResult| result.content[0].as_text().unwrap().text.clone();
        assert_eq!(text(call("echo").await.unwrap()), "{}");
        assert_eq!(text(call("ask").await.unwrap()), r#"accept {"decision":"yes"}"#);
        assert_eq!(*person.asked.lock().unwrap(), ["May I?"]);
        assert_eq!(text(call("count").await.unwrap()), "counted");
        eventually("three reports came", || person.progress.load(Ordering::SeqCst) == 3).await;
        let refused = call("nothing").await.unwrap_err().to_string();
        assert!(refused.contains("there is no tool nothing"), "{refused}");

        if revision == "2026-07-28" {
            let mut filter = SubscriptionFilter::default();
            filter.tools_list_changed = Some(true);
            let mut listening = client.listen(filter).await.unwrap();
            desk.changes.send_modify(|count| *count += 1);
            let told = tokio::time::timeout(SOON, listening.next()).await.unwrap().unwrap();
            assert!(matches!(told, Some(ServerNotification::ToolListChangedNotification(_))));
        } else {
            desk.changes.send_modify(|count| *count += 1);
            eventually("a change was told", || person.changes.load(Ordering::SeqCst) == 1).await;
        }
        assert_eq!(client.list_all_tools().await.unwrap().len(), 6);
        client.cancel().await.unwrap();
    }
}

#[tokio::test]
async fn over_lines() {
    it_lists_calls_asks_and_is_told(Way::Lines).await;
}

#[tokio::test]
async fn over_http() {
    it_lists_calls_asks_and_is_told(Way::Http).await;
}

#[tokio::test]
async fn a_call_it_abandons_is_cancelled() {
    for way in [Way::Lines, Way::Http] {
        for (mode, _) in modes() {
            let desk = Desk::new();
            let (client, _) = connected(&desk, mode, way).await;
            let call = client.call_tool(CallToolRequestParams::new("sleep"));
            let abandoned = tokio::time::timeout(std::time::Duration::from_millis(900), call).await;
            assert!(abandoned.is_err());
            let cancelled = || desk.cancelled.load(Ordering::SeqCst) == 1;
            eventually(&format!("the call was cancelled ({way:?})"), cancelled).await;
        }
    }
}
