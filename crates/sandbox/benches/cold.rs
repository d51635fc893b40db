//! A cold, confined `/bin/true` against bubblewrap's, taking turns in one run; prints the ratio of
//! the medians. `docs/performance.md` states the bound.
#![expect(clippy::print_stdout, reason = "the figures are the output")]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sandbox::{Ending, Options, Sandbox, Spec};

const ROUNDS: usize = 300;
const WARM_UP: usize = 20;

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn bubblewrap() -> Result<(), Box<dyn std::error::Error>> {
    let status = Command::new("/usr/bin/bwrap")
        .args(["--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"])
        .args(["--tmpfs", "/tmp", "/bin/true"])
        .stdin(Stdio::null())
        .status()?;
    if status.success() { Ok(()) } else { Err("bubblewrap failed".into()) }
}

async fn ours(sandbox: &Sandbox) -> Result<(), Box<dyn std::error::Error>> {
    let ended = sandbox.spawn(Spec::new("/bin/true")).await?.wait().await;
    if ended.ending == Ending::Exited(0) { Ok(()) } else { Err("the cell failed".into()) }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::start(Options::default()).await?;
    let (mut cells, mut wraps) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS + WARM_UP {
        let begun = Instant::now();
        ours(&sandbox).await?;
        let cell = begun.elapsed();
        let begun = Instant::now();
        bubblewrap()?;
        let wrap = begun.elapsed();
        if round >= WARM_UP {
            cells.push(cell);
            wraps.push(wrap);
        }
    }
    let least = |times: &[Duration]| times.iter().min().copied().unwrap_or_default();
    println!("level {}", sandbox.level().name);
    println!("confined /bin/true: min {:?}", least(&cells));
    println!("bubblewrap:         min {:?}", least(&wraps));
    let (cell, wrap) = (median(cells), median(wraps));
    let ratio = cell.as_secs_f64() / wrap.as_secs_f64();
    println!("medians {cell:?} and {wrap:?}: ratio {ratio:.2}");
    // For `xtask bench`, which gathers these lines.
    let figure = serde_json::json!({
        "what": "cold start of a confined `/bin/true`, against `bwrap --unshare-all --proc --dev --tmpfs`",
        "value": ratio, "unit": "×", "bound": 0.6, "aim": 0.5, "better": "lower",
        "detail": format!("{cell:.1?} against {wrap:.1?}"),
    });
    println!("figure: {figure}");
    Ok(())
}
