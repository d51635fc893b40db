//! `pinfold run`: a script calls tools; what it prints goes to standard output.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use gateway::sources::State;
use gateway::{
    Answer, Approval, ApprovalState, Failure as Refusal, Gateway, Origin, Outcome, Request,
};
use script::Kind;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;
use crate::wiring::{self, Open, Wait};
use crate::{config, terminal};

/// Largest script; a model's has a few kilobytes.
const MOST_BYTES: u64 = 1 << 20;

/// How long a slow reader of the prints is waited for once the run was cancelled.
const LAST_PRINTS: Duration = Duration::from_secs(2);

/// How often the same call may come back with a new question before something is wrong.
const MOST_QUESTIONS: usize = 4;

/// How often it is looked whether a question was answered elsewhere.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub(crate) struct Run {
    /// The script, Python that uses `agent_tools`
    #[arg(value_name = "SCRIPT.py")]
    script: PathBuf,

    /// Tools that change something and that the script may call
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    tools: Vec<String>,

    /// Allow what a person could allow, without asking
    #[arg(long)]
    yes: bool,

    /// The profile that says which servers and rules apply
    #[arg(long, value_name = "NAME", default_value = "default")]
    profile: String,
}

/// The arguments of the tool `run_script`.
#[derive(Serialize)]
struct Arguments<'a> {
    code: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tools: &'a [String],
    description: String,
}

impl Run {
    pub(crate) async fn run(mut self, given: Option<&Path>) -> Result<(), Failure> {
        self.tools.retain(|tool| !tool.is_empty());
        let code = read(&self.script).map_err(Failure::usage)?;
        let config = config::load(given).map_err(Failure::usage)?;
        let cancel = CancellationToken::new();
        watch_signals(cancel.clone()).map_err(Failure::failed)?;
        let open = tokio::select! {
            open = wiring::open(&config, &self.profile, Wait::Named(&code)) => open?,
            () = cancel.cancelled() => return Err(Failure::failed(anyhow!("cancelled"))),
        };
        let again = wiring::command_options(Some(&self.profile), given);
        let ended = self.call(&open, &code, &again, &cancel).await;
        open.close().await;
        ended
    }

    async fn call(
        &self,
        open: &Open,
        code: &str,
        again: &str,
        cancel: &CancellationToken,
    ) -> Result<(), Failure> {
        for (name, state) in &open.not_ready {
            terminal::say(&format!("warning: server {name} {}", describe(state)));
        }
        if let Some(reason) = open.gateway.without_scripts(&open.session) {
            return Err(Failure::failed(anyhow!("scripts cannot be run: {reason}")));
        }
        let name = self.script.file_name().unwrap_or_default().to_string_lossy();
        let arguments =
            Arguments { code, tools: &self.tools, description: format!("pinfold run {name}") };
        let arguments = serde_json::value::to_raw_value(&arguments).map_err(Failure::failed)?;
        for _ in 0..MOST_QUESTIONS {
            let (outcome, printed) = self.attempt(open, &arguments, cancel).await;
            match outcome {
                Outcome::Done(result) => return show(&result, open.session.workspace(), printed),
                Outcome::Refused(refusal) => return Err(self.refused(open, &refusal)),
                Outcome::Failed(failure) => return Err(Failure::failed(anyhow!(failure.message))),
                Outcome::Background(call) => {
                    // What is called from here never does.
                    return Err(Failure::failed(anyhow!("it goes on as {}", call.id)));
                }
                Outcome::NeedsApproval(approval) => {
                    self.decide(open, *approval, again, cancel).await?;
                }
            }
        }
        Err(Failure::refused(anyhow!(
            "the tools change faster than they can be approved; run it again when they are stable"
        )))
    }

    /// The outcome, and why prints are missing on standard output if some are.
    async fn attempt(
        &self,
        open: &Open,
        arguments: &RawValue,
        cancel: &CancellationToken,
    ) -> (Outcome, Result<(), String>) {
        let (events, received) = mpsc::unbounded_channel();
        let (prints, pieces) = mpsc::unbounded_channel();
        let shown = tokio::spawn(terminal::progress::show(received));
        let printed = tokio::spawn(async move {
            // The bar goes when the call is over, and so does the sender of the last piece.
            terminal::prints::hand_on(pieces, shown).await
        });
        let request = Request {
            session: open.session.clone(),
            tool: "run_script".to_owned(),
            arguments: arguments.to_owned(),
            origin: Origin::Cli,
            progress: Some(events),
            passed: mcp::Passed::default(),
            cancel: cancel.clone(),
        };
        let outcome = open.gateway.call_printing(request, prints).await;
        let given_up = async {
            cancel.cancelled().await;
            tokio::time::sleep(LAST_PRINTS).await;
        };
        let printed = tokio::select! {
            printed = printed => printed.unwrap_or_else(|error| Err(error.to_string())),
            () = given_up => Err("nobody reads it".to_owned()),
        };
        (outcome, printed)
    }

    /// Gets the question answered, by `--yes` or by the person at the terminal.
    async fn decide(
        &self,
        open: &Open,
        approval: Approval,
        again: &str,
        cancel: &CancellationToken,
    ) -> Result<(), Failure> {
        let id = approval.id.clone();
        let (answer, by) = if self.yes {
            (Answer::Once, "command line, --yes")
        } else if terminal::has_person() {
            let tools = open.gateway.tools(&open.session);
            let answer = tokio::select! {
                answer = terminal::approve::ask(approval, tools) => answer,
                over = over_elsewhere(&open.gateway, &id) => return over,
                () = cancel.cancelled() => return Err(Failure::failed(anyhow!("cancelled"))),
            };
            (answer.unwrap_or(Answer::Deny { reason: "nobody answered".to_owned() }), "terminal")
        } else {
            let asked: Vec<&str> = approval
                .listed
                .iter()
                .filter(|tool| tool.asked)
                .map(|tool| tool.name.as_str())
                .collect();
            let what = match asked.join(", ") {
                none if none.is_empty() => "run".to_owned(),
                names => format!("use {names}"),
            };
            return Err(Failure::refused(anyhow!(
                "the script needs an approval to {what} and there is no terminal to ask on; run it \
                 in a terminal, give --yes, or run `pinfold approvals approve {id}{again}` and then \
                 this again"
            )));
        };
        open.gateway.answer(&id, answer, by).await.map(|_| ()).map_err(Failure::refused)
    }

    fn refused(&self, open: &Open, refusal: &Refusal) -> Failure {
        let error = anyhow!(refusal.message.clone());
        let withheld = || self.tools.iter().any(|tool| open.gateway.withholds(&open.session, tool));
        match refusal.kind {
            Kind::Denied | Kind::NotListed | Kind::Destructive | Kind::TaskOnly => {
                Failure::refused(error)
            }
            Kind::UnknownTool if withheld() => Failure::refused(error),
            _ => Failure::failed(error),
        }
    }
}

/// Waits until a question is no longer open, while somebody looks at it here.
async fn over_elsewhere(gateway: &Gateway, id: &str) -> Result<(), Failure> {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        let state = match gateway.approval(id).await {
            Ok(approval) => approval.map_or(ApprovalState::Void, |approval| approval.state),
            // The answer will tell.
            Err(_) => continue,
        };
        match state {
            ApprovalState::Open => {}
            ApprovalState::Answered | ApprovalState::Used => {
                terminal::say("\nthe question was answered elsewhere");
                return Ok(());
            }
            ApprovalState::Expired => {
                return Err(Failure::refused(anyhow!(
                    "the question has expired before it was answered; run it again to be asked \
                     again"
                )));
            }
            ApprovalState::Void => {
                return Err(Failure::refused(anyhow!(
                    "what the question was about has changed; run it again to be asked again"
                )));
            }
        }
    }
}

/// Says everything about the run but its prints, which have gone out already. The records' place,
/// which a model sees from inside, is told as seen from here.
fn show(
    result: &mcp::CallResult,
    workspace: &Path,
    printed: Result<(), String>,
) -> Result<(), Failure> {
    let here = std::env::current_dir().unwrap_or_default();
    let place = workspace.join(".agent");
    let place = place.strip_prefix(&here).unwrap_or(&place);
    let account = result.text.lines().next().unwrap_or_default();
    let inside = account.rsplit(" · ").next().and_then(|file| file.strip_suffix("/calls.jsonl"));
    let text = match inside.and_then(|inside| Some((inside, inside.strip_prefix(".agent")?))) {
        Some((inside, rest)) => result.text.replace(inside, &format!("{}{rest}", place.display())),
        None => result.text.clone(),
    };
    terminal::say(&text);
    if let Err(fault) = printed {
        return Err(Failure::failed(anyhow!(
            "not all that the script printed reached standard output: {fault}; it is in output.txt, \
             beside that calls.jsonl"
        )));
    }
    if result.is_error { Err(Failure::shown()) } else { Ok(()) }
}

/// A state as the rest of a sentence about a server.
pub(crate) fn describe(state: &State) -> String {
    match state {
        State::Starting => "is still starting".to_owned(),
        State::Ready => "is ready".to_owned(),
        State::Down { reason } => {
            format!("cannot be used: {}", crate::show::Shown::line(reason))
        }
    }
}

fn read(script: &Path) -> anyhow::Result<String> {
    use std::io::Read;

    let mut bytes = Vec::new();
    std::fs::File::open(script)
        .and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes))
        .with_context(|| format!("cannot read {}", script.display()))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(anyhow!(
            "{} is larger than 1 MB; a script is code, not data",
            script.display()
        ));
    }
    String::from_utf8(bytes).map_err(|_| anyhow!("{} is not UTF-8", script.display()))
}

/// The first Ctrl-C (or SIGTERM) ends the script and lets everything be written down; the second
/// ends this process at once.
pub(crate) fn watch_signals(cancel: CancellationToken) -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        for first in [true, false] {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if first {
                terminal::say("cancelling; once more to quit at once");
                cancel.cancel();
            } else {
                std::process::exit(130);
            }
        }
    });
    Ok(())
}
