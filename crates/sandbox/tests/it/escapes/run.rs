//! Runs rows: without their layers, then with everything, and looks at what is left.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sandbox::{Ended, Ending, LeftOut, Options, Output, Running, Sandbox, Spec};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::row::{Row, Shape, said};
use super::stage::{Stage, careless_descriptor};

/// Rows that do not measure anything run this many at a time.
const AT_A_TIME: usize = 4;

/// Without namespaces of its own a run is counted together with all the others of this user.
const COUNTED_TOGETHER: u32 = 1000;

/// What became of one row.
struct Outcome {
    title: String,
    /// Whether the attack was seen to succeed without its layers.
    proven: bool,
    fault: Option<String>,
    said: String,
    took: Duration,
}

pub(super) async fn all(rows: Vec<Row>, options: Options) {
    careless_descriptor();
    let start = Instant::now();
    let sandbox = Sandbox::start(options).await.unwrap();
    eprintln!("level: {:?}", sandbox.level());
    // As many cells at once as there will be, so that what the sandbox keeps for later is there.
    let mut first = JoinSet::new();
    for _ in 0..3 * AT_A_TIME {
        let sandbox = sandbox.clone();
        first.spawn(async move {
            let mut spec = Spec::new("/bin/sleep");
            spec.args = vec!["0.3".into()];
            finish(&sandbox, spec).await.map(|ended| ended.ending)
        });
    }
    while let Some(ending) = first.join_next().await {
        assert_eq!(ending.unwrap(), Ok(Ending::Exited(0)));
    }
    let before = Residue::look();
    let (alone, together): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(|row| row.alone);
    let mut outcomes = Vec::new();
    for row in alone {
        outcomes.push(one(sandbox.clone(), row).await);
    }
    let places = Arc::new(Semaphore::new(AT_A_TIME));
    let mut tasks = JoinSet::new();
    for row in together {
        let (sandbox, places) = (sandbox.clone(), Arc::clone(&places));
        tasks.spawn(async move {
            let _place = places.acquire().await.unwrap();
            one(sandbox, row).await
        });
    }
    while let Some(outcome) = tasks.join_next().await {
        outcomes.push(outcome.unwrap());
    }
    outcomes.sort_by(|a, b| a.title.cmp(&b.title));
    let mut faults = 0;
    for outcome in &outcomes {
        let state = match (&outcome.fault, outcome.proven) {
            (Some(_), _) => "FAULT",
            (None, true) => "held",
            (None, false) => "checked",
        };
        faults += usize::from(outcome.fault.is_some());
        let detail = outcome.fault.as_deref().unwrap_or(&outcome.said);
        let milliseconds = outcome.took.as_millis();
        eprintln!("{state:8}{}: {detail} ({milliseconds} ms)", outcome.title);
    }
    let proven = outcomes.iter().filter(|outcome| outcome.proven).count();
    eprintln!(
        "{} rows, {proven} seen to succeed without their layers, {faults} faults, {:.1} s",
        outcomes.len(),
        start.elapsed().as_secs_f64()
    );
    tokio::time::sleep(Duration::from_millis(300)).await;
    let left = before.compare(&Residue::look());
    drop(sandbox);
    let mut after = remains();
    for _ in 0..60 {
        if after.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        after = remains();
    }
    assert_eq!((faults, left, after), (0, None, Vec::new()));
}

async fn one(sandbox: Sandbox, row: Row) -> Outcome {
    let title = format!("{} {}", row.id, row.name);
    let start = Instant::now();
    let (proven, first) = match row.unproven {
        Some(reason) => (false, Ok(reason.to_owned())),
        None => {
            let result = without_layers(&sandbox, &row).await;
            (result.is_ok(), result)
        }
    };
    let held = with_everything(&sandbox, &row).await;
    let second = match row.unproven {
        Some(_) => None,
        None => without_the_first(&sandbox, &row).await,
    };
    let (fault, said) = match (first, held) {
        (_, Err(fault)) => (Some(fault), String::new()),
        (Ok(_), Ok(said)) if second.is_some() => (second, said),
        (Err(fault), Ok(said)) => {
            (Some(format!("proves nothing: {fault}; with everything: {said}")), said)
        }
        (Ok(first), Ok(said)) => (None, format!("{said}; without its layers: {first}")),
    };
    Outcome { title, proven, fault, said, took: start.elapsed() }
}

/// The attack must succeed here.
async fn without_layers(sandbox: &Sandbox, row: &Row) -> Result<String, String> {
    let stage = Stage::new();
    let ended = attack_without(sandbox, row, &stage, &row.stopped_by, row.loosen).await?;
    let succeeded = tokio::task::block_in_place(|| row.succeeded(&ended, &stage));
    for pid in stage.left_processes() {
        if let Some(pid) = rustix::process::Pid::from_raw(pid) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
    let said = said(&ended);
    if succeeded { Ok(said) } else { Err(format!("without its layers {:?} {said}", ended.ending)) }
}

/// The attack must be held here too: its first layer is left out, and there is a second.
async fn without_the_first(sandbox: &Sandbox, row: &Row) -> Option<String> {
    let first = row.second_behind?;
    let stage = Stage::new();
    match attack_without(sandbox, row, &stage, &[first], None).await {
        Ok(ended) => row.still_escapes(&ended).map(|how| format!("without {first:?} only: {how}")),
        Err(error) => Some(format!("without {first:?} only: {error}")),
    }
}

async fn attack_without(
    sandbox: &Sandbox,
    row: &Row,
    stage: &Stage,
    layers: &[LeftOut],
    loosen: Option<Shape>,
) -> Result<Ended, String> {
    let build = |attack: &str| {
        let mut spec = stage.spec(attack);
        spec.leave_out.extend(layers);
        spec.limits.processes = COUNTED_TOGETHER;
        if layers.contains(&LeftOut::MountView) {
            spec.mounts.clear();
            spec.cwd = "/".into();
        }
        spec
    };
    let mut _victim = None;
    if row.victim {
        let mut spec = stage.victim();
        spec.leave_out.extend(layers);
        spec.limits.processes = COUNTED_TOGETHER;
        _victim = Some(start_victim(sandbox, spec).await?);
    }
    if let Some(before) = &row.before {
        let mut spec = build(before);
        if let Some(loosen) = loosen {
            loosen(&mut spec, stage);
        }
        finish(sandbox, spec).await?;
    }
    let mut spec = build(&row.attack);
    for shape in &row.shape {
        shape(&mut spec, stage);
    }
    if let Some(loosen) = loosen {
        loosen(&mut spec, stage);
    }
    finish(sandbox, spec).await
}

/// The attack must be held here, and everything be as before.
async fn with_everything(sandbox: &Sandbox, row: &Row) -> Result<String, String> {
    let stage = Stage::new();
    let victim = match row.victim {
        true => Some(start_victim(sandbox, stage.victim()).await?),
        false => None,
    };
    if let Some(before) = &row.before {
        finish(sandbox, stage.spec(before)).await?;
    }
    let mut spec = stage.spec(&row.attack);
    for shape in &row.shape {
        shape(&mut spec, &stage);
    }
    let memory = resident();
    let start = Instant::now();
    let meanwhile = row.alone.then(|| {
        let sandbox = sandbox.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(150)).await;
            trivial(&sandbox).await
        })
    });
    let ended = match finish(sandbox, spec).await {
        Err(error) if row.may_be_refused_at_start && error.starts_with("did not start: ") => {
            let effect = row.never.is_some_and(|never| never(&stage));
            return if effect { Err(format!("its effect is seen: {error}")) } else { Ok(error) };
        }
        ended => ended?,
    };
    let took = start.elapsed();
    let grown = resident().saturating_sub(memory);
    let mut faults = Vec::new();
    faults.extend(tokio::task::block_in_place(|| row.fault(&ended, &stage)));
    if took > row.within {
        faults.push(format!("answered only after {took:?}"));
    }
    if row.growth.is_some_and(|growth| grown > growth) {
        faults.push(format!("the server grew by {} KB", grown >> 10));
    }
    if let Some(meanwhile) = meanwhile {
        let fault = meanwhile.await.unwrap();
        faults.extend(fault.map(|fault| format!("another run meanwhile: {fault}")));
    }
    faults.extend(trivial(sandbox).await.map(|fault| format!("the next run: {fault}")));
    if let Some(mut victim) = victim
        && timeout(Duration::ZERO, victim.wait()).await.is_ok()
    {
        faults.push("the other run is dead".to_owned());
    }
    let mut left = stage.left_processes();
    for _ in 0..20 {
        if left.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        left = stage.left_processes();
    }
    if !left.is_empty() {
        faults.push(format!("processes are left: {left:?}"));
    }
    if faults.is_empty() {
        Ok(format!("{:?} {}", ended.ending, said(&ended)))
    } else {
        Err(faults.join("; "))
    }
}

/// Whether programs are started ahead, and told to begin when they run.
pub(super) fn is_ahead() -> bool {
    std::env::var(super::WAY).as_deref() == Ok("ahead")
}

/// Runs to the end; the wait is bounded apart from the sandbox's own timer.
async fn finish(sandbox: &Sandbox, mut spec: Spec) -> Result<Ended, String> {
    let longest = spec.limits.wall + Duration::from_secs(10);
    spec.waits = is_ahead().then_some(Duration::from_secs(60));
    let mut running = match timeout(longest, sandbox.spawn(spec)).await {
        Ok(Ok(running)) => running,
        Ok(Err(error)) => return Err(format!("did not start: {error}")),
        Err(_) => return Err("did not start in time".to_owned()),
    };
    running.begin();
    timeout(longest, running.wait()).await.map_err(|_| "did not end in time".to_owned())
}

/// What is wrong with a run that does nothing, if anything.
async fn trivial(sandbox: &Sandbox) -> Option<String> {
    let mut spec = Spec::new("/bin/true");
    spec.limits.wall = Duration::from_secs(5);
    let start = Instant::now();
    match finish(sandbox, spec).await {
        Ok(ended) if ended.ending != Ending::Exited(0) => Some(format!("{:?}", ended.ending)),
        Ok(_) if start.elapsed() > Duration::from_secs(3) => {
            Some(format!("took {:?}", start.elapsed()))
        }
        Ok(_) => None,
        Err(error) => Some(error),
    }
}

async fn start_victim(sandbox: &Sandbox, mut spec: Spec) -> Result<Running, String> {
    let (sender, mut ready) = tokio::sync::mpsc::unbounded_channel();
    spec.stdout = Output::Sink {
        sink: Box::new(move |_: &[u8]| {
            let _ = sender.send(());
        }),
        limit: 1000,
    };
    let running = sandbox.spawn(spec).await.map_err(|error| format!("no victim: {error}"))?;
    match timeout(Duration::from_secs(5), ready.recv()).await {
        Ok(Some(())) => Ok(running),
        _ => Err("the victim did not get ready".to_owned()),
    }
}

/// Memory of this process in bytes.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// What a run could leave in this process and on the host.
struct Residue {
    descriptors: usize,
    mounts: usize,
}

impl Residue {
    fn look() -> Self {
        let count = |path: &str| std::fs::read_dir(path).unwrap().count();
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count();
        Self { descriptors: count("/proc/self/fd"), mounts }
    }

    fn compare(&self, after: &Self) -> Option<String> {
        let mut left = Vec::new();
        for (what, before, after) in [
            ("descriptors", self.descriptors, after.descriptors),
            ("mounts", self.mounts, after.mounts),
        ] {
            if after > before {
                left.push(format!("{} {what}", after - before));
            }
        }
        (!left.is_empty()).then(|| format!("left behind: {}", left.join(", ")))
    }
}

/// What should be gone with the sandbox: its keeper, and its control groups.
fn remains() -> Vec<String> {
    let own = std::process::id();
    let mut found = Vec::new();
    let children = std::fs::read_to_string(format!("/proc/self/task/{own}/children"));
    found.extend(
        children.unwrap_or_default().split_whitespace().map(|pid| format!("process {pid}")),
    );
    cgroups_of(own, "/sys/fs/cgroup".as_ref(), &mut found);
    found
}

fn cgroups_of(server: u32, path: &std::path::Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("pinfold") && name.split('.').any(|part| part == server.to_string())
            {
                found.push(entry.path().display().to_string());
            }
            cgroups_of(server, &entry.path(), found);
        }
    }
}
