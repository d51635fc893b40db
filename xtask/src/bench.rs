//! Measures what is promised about speed: runs every bench, prints one table, writes
//! `docs/performance.md`.
//!
//! A bench prints a line `figure: {"what", "value", "unit", "bound", "aim", "better", "detail"}`
//! per figure. Figures are ratios within one run, and nothing here fails a build: a machine that
//! is busy would fail it.

use std::fmt::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::Value;

/// (package, bench)
const BENCHES: [(&str, &str); 6] = [
    ("sandbox", "cold"),
    ("script", "start"),
    ("script", "channel"),
    ("gateway", "road"),
    ("pinfold", "stdio"),
    ("pinfold", "serving"),
];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only these benches, by name; their rows are put in the place of the ones there were
    only: Vec<String>,

    /// Print the table and leave docs/performance.md as it is
    #[arg(long)]
    keep: bool,
}

/// One figure of one bench.
struct Figure {
    what: String,
    value: f64,
    unit: String,
    bound: Option<f64>,
    aim: Option<f64>,
    /// Whether more is better.
    higher: bool,
    detail: String,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let mut figures = Vec::new();
    for (package, bench) in BENCHES {
        if options.only.is_empty() || options.only.iter().any(|only| only == bench) {
            figures.extend(measure(package, bench)?);
        }
    }
    let table = table(&figures);
    println!("{table}");
    if !options.keep {
        let path = crate::root().join("docs/performance.md");
        let table = match options.only.is_empty() {
            true => table,
            false => merged(&std::fs::read_to_string(&path).unwrap_or_default(), &table),
        };
        std::fs::write(&path, document(&table)).with_context(|| path.display().to_string())?;
        println!("written to docs/performance.md");
    }
    Ok(())
}

fn measure(package: &str, bench: &str) -> anyhow::Result<Vec<Figure>> {
    eprintln!("xtask: bench {package}/{bench}");
    // Built before, so that its own compilation is no load.
    let built =
        crate::cargo().args(["bench", "-p", package, "--bench", bench, "--no-run"]).status();
    if !built.context("cannot start cargo")?.success() {
        bail!("the bench {bench} of {package} cannot be built");
    }
    let load = load();
    let output = crate::cargo()
        .args(["bench", "-p", package, "--bench", bench])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("the bench {bench} of {package} failed:\n{text}");
    }
    let mut figures: Vec<Figure> = text
        .lines()
        .filter_map(|line| line.strip_prefix("figure: "))
        .map(read)
        .collect::<anyhow::Result<_>>()?;
    if let Some(load) = load {
        for figure in &mut figures {
            let between = if figure.detail.is_empty() { "" } else { "; " };
            // Writing into a String cannot fail.
            let _ = write!(figure.detail, "{between}on a busy machine, load {load:.0}");
        }
    }
    if figures.is_empty() {
        bail!("the bench {bench} of {package} printed no figure:\n{text}");
    }
    Ok(figures)
}

/// The load of the last minute, if there is more of it than this machine has processors.
fn load() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    let load: f64 = text.split(' ').next()?.parse().ok()?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (load > cores as f64 + 0.5).then_some(load)
}

/// The rows of a table put in the place of those of the same name in a document, or behind them.
fn merged(document: &str, table: &str) -> String {
    let name = |row: &str| row.split(" | ").next().unwrap_or_default().to_owned();
    let mut lines = table.lines();
    let head: Vec<&str> = lines.by_ref().take(2).collect();
    let mut new: Vec<&str> = lines.collect();
    let mut text = format!("{}\n", head.join("\n"));
    let rows = document.lines().filter(|line| line.starts_with("| ") && !head.contains(line));
    for row in rows {
        let row = match new.iter().position(|other| name(other) == name(row)) {
            Some(place) => new.remove(place),
            None => row,
        };
        text.push_str(row);
        text.push('\n');
    }
    for row in new {
        text.push_str(row);
        text.push('\n');
    }
    text
}

fn read(line: &str) -> anyhow::Result<Figure> {
    let value: Value = serde_json::from_str(line).with_context(|| format!("figure: {line}"))?;
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    Ok(Figure {
        what: text("what"),
        value: value["value"].as_f64().with_context(|| format!("no value in {line}"))?,
        unit: text("unit"),
        bound: value["bound"].as_f64(),
        aim: value["aim"].as_f64(),
        higher: value["better"] == "higher",
        detail: text("detail"),
    })
}

fn table(figures: &[Figure]) -> String {
    let mut text = String::from("| what | measured | bound | aim | |\n|---|---|---|---|---|\n");
    for figure in figures {
        let limit = |limit: Option<f64>| match limit {
            Some(limit) if figure.higher => format!("≥ {}", number(limit, &figure.unit)),
            Some(limit) => format!("≤ {}", number(limit, &figure.unit)),
            None => "–".to_owned(),
        };
        let within = |limit: f64| {
            if figure.higher { figure.value >= limit } else { figure.value <= limit }
        };
        let mark = match (figure.bound.map(within), figure.aim.map(within)) {
            (Some(false), _) => "**misses the bound**; ",
            (_, Some(true)) => "reaches the aim; ",
            (Some(true), _) => "within the bound; ",
            (None, _) => "",
        };
        // Writing into a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {mark}{} |",
            figure.what,
            number(figure.value, &figure.unit),
            limit(figure.bound),
            limit(figure.aim),
            figure.detail
        );
    }
    text
}

fn number(value: f64, unit: &str) -> String {
    if value >= 1000.0 {
        format!("{value:.0} {unit}").trim_end().to_owned()
    } else if unit == "×" {
        format!("{value:.2} ×")
    } else {
        format!("{value:.2} {unit}").trim_end().to_owned()
    }
}

fn document(table: &str) -> String {
    format!(
        "# Performance\n\n\
         Written by `cargo run --release -p xtask -- bench` on {}. Ratios are within one run, the \
         two sides taking turns, so they carry over to other machines better than the times do; \
         no test asserts them. The bounds are promises, the aims are where this should go. What one \
         `call` costs depends on where the scheduler puts the two sides, so it stands here twice \
         (see [001](design/001-main-job.md)).\n\n\
         {table}",
        machine()
    )
}

/// The machine in general terms; no names.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let kernel = Command::new("uname").arg("-r").output().ok();
    let kernel = kernel.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let kernel = kernel.unwrap_or_default();
    let version: Vec<&str> = kernel.split(['.', '-', '+']).take(2).collect();
    format!("a machine with {cores} cores and Linux {}", version.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_judged_in_the_right_direction() {
        let lines = [
            r#"{"what":"a","value":0.5,"unit":"×","bound":0.6,"aim":0.5,"better":"lower"}"#,
            r#"{"what":"b","value":0.7,"unit":"×","bound":0.6,"aim":0.5,"better":"lower"}"#,
            r#"{"what":"c","value":12000,"unit":"calls/s","bound":10000,"aim":20000,"better":"higher","detail":"d"}"#,
        ];
        let figures: Vec<Figure> = lines.iter().map(|line| read(line).unwrap()).collect();
        let table = table(&figures);
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(rows[0], "| a | 0.50 × | ≤ 0.60 × | ≤ 0.50 × | reaches the aim;  |");
        assert!(rows[1].contains("**misses the bound**"), "{table}");
        assert_eq!(
            rows[2],
            "| c | 12000 calls/s | ≥ 10000 calls/s | ≥ 20000 calls/s | within the bound; d |"
        );
        assert!(read("{}").is_err());
    }

    #[test]
    fn rows_of_one_bench_take_the_place_of_the_ones_there_were() {
        let head = "| what | measured |\n|---|---|\n";
        let before = format!("# Performance\n\nText.\n\n{head}| a | 1 |\n| b | 2 |\n");
        let after = merged(&before, &format!("{head}| b | 3 |\n| c | 4 |\n"));
        assert_eq!(after, format!("{head}| a | 1 |\n| b | 3 |\n| c | 4 |\n"));
        assert_eq!(merged("", &format!("{head}| a | 1 |\n")), format!("{head}| a | 1 |\n"));
    }
}
