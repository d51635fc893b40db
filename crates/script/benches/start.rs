//! What a script costs that does nothing but print: in an interpreter that waits, in one that is
//! started for it, and against the bare interpreter. The sides take turns in one run.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sandbox::{Access, Options, Sandbox};
use script::{Checked, Ending, Engine, Job, Limits, NoTools, Python};
use tokio_util::sync::CancellationToken;

const ROUNDS: usize = 100;
const WARM_UP: usize = 5;

type Failure = Box<dyn std::error::Error>;

/// Until it has printed, and until it is over.
async fn run(engine: &Engine, workspace: &std::path::Path) -> Result<[Duration; 2], Failure> {
    let printed = Arc::new(Mutex::new(None));
    let (heard, begun) = (printed.clone(), Instant::now());
    let job = Job {
        code: "print(6 * 7)".to_owned(),
        workspace: std::fs::File::open(workspace)?.into(),
        access: Access::ReadWrite,
        records: None,
        limits: Limits {
            max_calls: 1,
            concurrency: 1,
            timeout: Duration::from_secs(20),
            memory_mb: 512,
        },
        stdout: Box::new(move |_| {
            let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
            heard.get_or_insert(begun.elapsed());
        }),
        stderr: Box::new(|piece| drop(std::io::stderr().write_all(piece))),
    };
    let finished = engine.run(job, Arc::new(NoTools), CancellationToken::new()).await?;
    let over = begun.elapsed();
    let printed = printed.lock().unwrap_or_else(PoisonError::into_inner).ok_or("no output")?;
    if finished.ending == Ending::Completed { Ok([printed, over]) } else { Err("it failed".into()) }
}

async fn check(engine: &Engine) -> Result<Duration, Failure> {
    let begun = Instant::now();
    let checked = engine.check("print(6 * 7)").await?;
    let took = begun.elapsed();
    if matches!(checked, Checked::Parses { .. }) { Ok(took) } else { Err("no syntax".into()) }
}

fn bare(python: &Python) -> Result<Duration, Failure> {
    let begun = Instant::now();
    let status = Command::new(&python.executable)
        .args(["-I", "-S", "-c", "pass"])
        .stdin(Stdio::null())
        .status()?;
    if status.success() { Ok(begun.elapsed()) } else { Err("the interpreter failed".into()) }
}

/// A little longer than it takes until both wait, so that they do wait.
async fn pause(engine: &Engine) {
    while engine.waiting() != (1, 1) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
}

fn median(times: &[Duration]) -> f64 {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1000.0)
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let (workspace, data) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let python = Python::find("auto").await?;
    let sandbox = Sandbox::start(Options::default()).await?;
    let cold = Engine::new(sandbox.clone(), python.clone(), data.path())?;
    let ahead = Engine::starting_ahead(sandbox, python.clone(), data.path(), 1)?;
    let mut times: [Vec<Duration>; 7] = Default::default();
    run(&ahead, workspace.path()).await?;
    check(&ahead).await?;
    for round in 0..ROUNDS + WARM_UP {
        pause(&ahead).await;
        let [waited_printed, waited_over] = run(&ahead, workspace.path()).await?;
        let waited_check = check(&ahead).await?;
        pause(&ahead).await;
        let [printed, over] = run(&cold, workspace.path()).await?;
        let measured = [
            bare(&python)?,
            waited_printed,
            waited_over,
            waited_check,
            printed,
            over,
            check(&cold).await?,
        ];
        if round >= WARM_UP {
            times.iter_mut().zip(measured).for_each(|(times, time)| times.push(time));
        }
    }
    let [bare, printed, over, checked, cold_printed, cold_over, cold_checked] =
        times.each_ref().map(|times| median(times));
    let mut out = std::io::stdout();
    writeln!(out, "medians in ms; python3 -I -S -c pass {bare:.2}")?;
    writeln!(out, "waiting: printed {printed:.2}, over {over:.2}, checked {checked:.2}")?;
    writeln!(
        out,
        "cold:    printed {cold_printed:.2}, over {cold_over:.2}, checked {cold_checked:.2}"
    )?;
    // For `xtask bench`, which gathers these lines.
    for (what, ours, theirs) in [
        ("the first line of a trivial script whose interpreter waits", printed, cold_printed),
        ("the same script from start to end", over, cold_over),
        ("the check of a script before it runs", checked, cold_checked),
    ] {
        let figure = serde_json::json!({
            "what": format!("{what}, against a bare `python3 -I -S -c pass`"),
            "value": ours / bare, "unit": "×", "better": "lower",
            "detail": format!("{ours:.2} ms against {bare:.2} ms; {theirs:.2} ms where none waits"),
        });
        writeln!(out, "figure: {figure}")?;
    }
    Ok(())
}
