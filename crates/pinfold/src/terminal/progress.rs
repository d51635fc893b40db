//! Shows on standard error how far a script is.
//!
//! A bar where standard error is a terminal; elsewhere a plain line now and then, so that a log
//! file stays readable.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use gateway::{Progress, ScriptProgress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::sync::mpsc;

use crate::show::Shown;

/// Between two plain lines.
const PLAIN_PAUSE: Duration = Duration::from_secs(10);

const WITHOUT_TOTAL: &str = "{spinner} {prefix} · {elapsed}{msg}";
const WITH_TOTAL: &str = "{bar:30} {pos}/{len} · {prefix} · {elapsed}{msg}";

/// Shows what arrives until the sender is gone.
pub(crate) async fn show(mut events: mpsc::UnboundedReceiver<Progress>) {
    let mut display =
        if std::io::stderr().is_terminal() { Display::bar() } else { Display::plain() };
    while let Some(event) = events.recv().await {
        if let Progress::Script(progress) = event {
            display.update(&progress);
        }
    }
    if let Display::Bar(bar) = display {
        bar.finish_and_clear();
    }
}

enum Display {
    Bar(ProgressBar),
    Plain(Instant),
}

impl Display {
    fn bar() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
        bar.set_style(style(WITHOUT_TOTAL));
        bar.set_prefix("starting");
        bar.enable_steady_tick(Duration::from_millis(120));
        Self::Bar(bar)
    }

    fn plain() -> Self {
        Self::Plain(Instant::now())
    }

    fn update(&mut self, progress: &ScriptProgress) {
        match self {
            Self::Bar(bar) => {
                bar.set_prefix(calls(progress));
                bar.set_message(message(progress));
                if let Some(total) = whole(progress.total).filter(|total| *total > 0) {
                    if bar.length() != Some(total) {
                        bar.set_style(style(WITH_TOTAL));
                        bar.set_length(total);
                    }
                    bar.set_position(whole(progress.done).unwrap_or_default().min(total));
                }
            }
            Self::Plain(last) => {
                if last.elapsed() >= PLAIN_PAUSE {
                    *last = Instant::now();
                    super::say(&format!(
                        "{}{} · {} s{}",
                        position(progress),
                        calls(progress),
                        progress.elapsed_ms / 1000,
                        message(progress)
                    ));
                }
            }
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates are constants of this file and a test sees that they are right.
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("━╸ ")
}

fn calls(progress: &ScriptProgress) -> String {
    let calls = match progress.calls {
        1 => "1 call".to_owned(),
        calls => format!("{calls} calls"),
    };
    match progress.failed {
        0 => calls,
        failed => format!("{calls}, {failed} failed"),
    }
}

fn position(progress: &ScriptProgress) -> String {
    match (whole(progress.done), whole(progress.total)) {
        (Some(done), Some(total)) => format!("{done}/{total} · "),
        _ => String::new(),
    }
}

/// What the script said, which a model wrote.
fn message(progress: &ScriptProgress) -> String {
    match &progress.message {
        Some(message) if !message.is_empty() => {
            let short: String = message.chars().take(60).collect();
            format!(" · {}", Shown::line(&short))
        }
        _ => String::new(),
    }
}

/// A number of a script's, which can be anything, as one that a bar can show.
fn whole(number: Option<f64>) -> Option<u64> {
    number.filter(|number| number.is_finite() && *number >= 0.0).map(|number| number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_right() {
        for template in [WITHOUT_TOTAL, WITH_TOTAL] {
            ProgressStyle::with_template(template).unwrap();
        }
    }

    #[test]
    fn odd_numbers_and_messages_of_a_script_do_no_harm() {
        let progress = |done, total, message: &str| ScriptProgress {
            script_id: "s".to_owned(),
            description: String::new(),
            calls: 3,
            failed: 1,
            done,
            total,
            message: Some(message.to_owned()),
            elapsed_ms: 0,
            state: gateway::ScriptState::Running,
        };
        for odd in [f64::NAN, f64::INFINITY, -1.0] {
            let odd = progress(Some(odd), Some(odd), "x");
            assert_eq!(position(&odd), "");
            Display::bar().update(&odd);
        }
        let attack = progress(Some(1.0), Some(2.0), "\u{1b}[2J\rgone");
        assert_eq!(message(&attack), r" · \u{1b}[2J\u{d}gone");
        assert_eq!(position(&attack), "1/2 · ");
        assert_eq!(calls(&attack), "3 calls, 1 failed");
    }
}
