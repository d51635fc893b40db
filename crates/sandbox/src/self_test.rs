//! The self-test at start: one cell whose program is our own probe, and a verdict.
//!
//! Every attempt is made by compiled code under the very seal that programs get, so no interpreter
//! is needed and nothing is assumed.

use std::time::Duration;

use crate::error::Error;
use crate::keeper::wire::Report;
use crate::keeper::{self};
use crate::level;
use crate::plan::Act;
use crate::plan::compile::{self, Compiled};
use crate::spec::Spec;
use crate::sys;

const TIME: Duration = Duration::from_secs(20);

/// A run that only probes.
pub(crate) fn probe() -> Result<Compiled, Error> {
    let mut spec = Spec::new("/");
    spec.limits.processes = 8;
    let mut compiled = compile::compile(spec)?;
    compiled.plan.act = Act::Probe;
    Ok(compiled)
}

/// Hears what the probe found; answers how many attempts were made, all refused.
pub(crate) async fn judge(report: std::os::fd::OwnedFd) -> Result<usize, Error> {
    let failed = |what: String| Error::Unavailable {
        what: format!("the sandbox self-test failed: {what}"),
        hint: level::hint(),
    };
    let report = sys::watch(report).map_err(|error| failed(error.to_string()))?;
    let findings = async {
        let mut heard = None;
        loop {
            match keeper::receive::<Report>(&report).await {
                Ok(Some((Report::Probed(findings), _))) => heard = Some(findings),
                Ok(Some((Report::Over { .. }, _)) | None) if heard.is_some() => {
                    return Ok(heard.unwrap_or_default());
                }
                Ok(Some((Report::Failed(failure), _))) => {
                    let (stage, errno) = (failure.stage, failure.errno);
                    return Err(format!("making a cell failed at {stage:?}: {errno}"));
                }
                Ok(Some((Report::Refused(what), _))) => return Err(what),
                Ok(Some((Report::Over { .. }, _)) | None) => {
                    return Err("the probe ended without an answer".to_owned());
                }
                Ok(Some(_)) => {}
                Err(errno) => return Err(errno.to_string()),
            }
        }
    };
    let findings = match tokio::time::timeout(TIME, findings).await {
        Ok(findings) => findings.map_err(failed)?,
        Err(_) => return Err(failed(format!("no answer within {TIME:?}"))),
    };
    let possible: Vec<_> =
        findings.iter().filter(|(_, refused)| !refused).map(|(what, _)| what.as_str()).collect();
    if possible.is_empty() {
        Ok(findings.len())
    } else {
        Err(failed(format!("not refused inside: {}", possible.join(", "))))
    }
}
