//! One row of the suite: an attack, the layers that stop it, and what is to be seen.

use std::time::Duration;

use sandbox::{Ended, Ending, LeftOut, Spec};

use super::stage::{SECRET, Stage};

/// As whom a row makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Root,
    Both,
}

impl Who {
    pub(super) fn includes(self, root: bool) -> bool {
        self == Self::Both || root
    }
}

/// A way in which fewer rows hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weaker {
    WithoutControlGroups,
    ThroughBubblewrap,
}

/// How it is seen that the attack succeeds while its layers are left out.
#[derive(Clone, Copy)]
pub(super) enum Success {
    /// It says `ESCAPED`.
    Says,
    /// It says `ESCAPED` with the secret of a stage, which it can only have read.
    SaysSecret,
    /// This end and this look from outside.
    Seen(fn(&Ended, &Stage) -> bool),
}

/// What is to be seen when every layer is there.
#[derive(Clone)]
pub(super) enum Held {
    /// It says `REFUSED` with one of these.
    Refused(Vec<&'static str>),
    /// It says `NOTHING`: it looked and found nothing.
    Nothing,
    /// Nothing to read: `NOTHING`, or it is not there or not to be opened.
    Masked,
    /// It is ended for its memory, or something it needs is refused; see the prelude for 77.
    Bounded,
    /// It says `REFUSED` with one of these, or ends with [`Ending::ProcessLimit`].
    LimitSeen(Vec<&'static str>),
    /// The run ends in one of these ways, whatever was said.
    Ends(Vec<Ending>),
}

pub(super) type Shape = fn(&mut Spec, &Stage);

#[derive(Clone)]
pub(super) struct Row {
    pub(super) id: &'static str,
    pub(super) name: String,
    pub(super) who: Who,
    pub(super) attack: String,
    /// Run first, in a cell of its own, with the same layers.
    pub(super) before: Option<String>,
    /// All the layers that have to be left out together for the attack to succeed.
    pub(super) stopped_by: Vec<LeftOut>,
    /// The first of those layers, if the attack is held by a second one where only it is left out.
    pub(super) second_behind: Option<LeftOut>,
    /// Changes of both runs: mounts, descriptors, limits.
    pub(super) shape: Vec<Shape>,
    /// Changes of the left-out run alone, where the layer is a number in the spec.
    pub(super) loosen: Option<Shape>,
    pub(super) success: Success,
    pub(super) held: Held,
    /// Looked at after the held run, besides the verdict: what must not be so.
    pub(super) never: Option<fn(&Stage) -> bool>,
    pub(super) never_ended: Option<fn(&Ended) -> bool>,
    /// Why there is no left-out run; such a row is only a check and is not counted.
    pub(super) unproven: Option<&'static str>,
    /// An error instead of a run is as good an answer.
    pub(super) may_be_refused_at_start: bool,
    /// Why this does not hold in the weaker ways, which say so themselves.
    pub(super) weaker: Option<(Weaker, &'static str)>,
    /// Another run of the same sandbox stands by as a victim.
    pub(super) victim: bool,
    /// Measures resources: runs alone, and another run must be answered meanwhile.
    pub(super) alone: bool,
    /// Most by which this process's memory may grow in the held run.
    pub(super) growth: Option<u64>,
    /// Longest time from the start to the answer of the held run.
    pub(super) within: Duration,
}

pub(super) fn row(
    id: &'static str,
    name: impl Into<String>,
    stopped_by: &[LeftOut],
    attack: impl Into<String>,
) -> Row {
    Row {
        id,
        name: name.into(),
        who: Who::Both,
        attack: attack.into(),
        before: None,
        stopped_by: stopped_by.to_vec(),
        second_behind: None,
        shape: Vec::new(),
        loosen: None,
        success: Success::Says,
        held: Held::Refused(vec!["EPERM"]),
        never: None,
        never_ended: None,
        unproven: None,
        may_be_refused_at_start: false,
        weaker: None,
        victim: false,
        alone: false,
        growth: None,
        within: Duration::from_secs(8),
    }
}

impl Row {
    pub(super) fn who(mut self, who: Who) -> Self {
        self.who = who;
        self
    }

    pub(super) fn prologue(mut self, code: &str) -> Self {
        self.attack = format!("{code}\n{}", self.attack);
        self
    }

    pub(super) fn before(mut self, code: impl Into<String>) -> Self {
        self.before = Some(code.into());
        self
    }

    pub(super) fn shape(mut self, shape: Shape) -> Self {
        self.shape.push(shape);
        self
    }

    pub(super) fn loosen(mut self, loosen: Shape) -> Self {
        self.loosen = Some(loosen);
        self
    }

    pub(super) fn says_secret(mut self) -> Self {
        self.success = Success::SaysSecret;
        self
    }

    pub(super) fn seen(mut self, seen: fn(&Ended, &Stage) -> bool) -> Self {
        self.success = Success::Seen(seen);
        self
    }

    pub(super) fn refused(mut self, errors: &[&'static str]) -> Self {
        self.held = Held::Refused(errors.to_vec());
        self
    }

    pub(super) fn nothing(mut self) -> Self {
        self.held = Held::Nothing;
        self
    }

    pub(super) fn bounded(mut self) -> Self {
        self.held = Held::Bounded;
        self
    }

    pub(super) fn masked(mut self) -> Self {
        self.held = Held::Masked;
        self
    }

    pub(super) fn ends(mut self, endings: &[Ending]) -> Self {
        self.held = Held::Ends(endings.to_vec());
        self
    }

    pub(super) fn never(mut self, never: fn(&Stage) -> bool) -> Self {
        self.never = Some(never);
        self
    }

    pub(super) fn never_ended(mut self, never: fn(&Ended) -> bool) -> Self {
        self.never_ended = Some(never);
        self
    }

    pub(super) fn unproven(mut self, reason: &'static str) -> Self {
        self.unproven = Some(reason);
        self
    }

    pub(super) fn may_be_refused_at_start(mut self) -> Self {
        self.may_be_refused_at_start = true;
        self
    }

    pub(super) fn weaker(mut self, way: Weaker, reason: &'static str) -> Self {
        self.weaker = Some((way, reason));
        self
    }

    /// Says that a second layer holds behind this one.
    pub(super) fn second_behind(mut self, first: LeftOut) -> Self {
        self.second_behind = Some(first);
        self
    }

    /// More layers that have to be left out.
    pub(super) fn also(mut self, layers: &[LeftOut]) -> Self {
        self.stopped_by.extend(layers);
        self
    }

    pub(super) fn limit_seen(mut self, errors: &[&'static str]) -> Self {
        self.held = Held::LimitSeen(errors.to_vec());
        self
    }

    pub(super) fn victim(mut self) -> Self {
        self.victim = true;
        self
    }

    pub(super) fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    pub(super) fn growth(mut self, bytes: u64) -> Self {
        self.growth = Some(bytes);
        self.alone = true;
        self
    }

    pub(super) fn within(mut self, time: Duration) -> Self {
        self.within = time;
        self
    }

    /// Whether what was seen of the left-out run proves that the attack works.
    pub(super) fn succeeded(&self, ended: &Ended, stage: &Stage) -> bool {
        let said = said(ended);
        match self.success {
            Success::Says => said.starts_with("ESCAPED"),
            Success::SaysSecret => said.starts_with("ESCAPED") && said.contains(SECRET),
            Success::Seen(seen) => seen(ended, stage),
        }
    }

    /// How the attack gets through where only its first layer is left out, if it does.
    pub(super) fn still_escapes(&self, ended: &Ended) -> Option<String> {
        let said = said(ended);
        let held = ended.ending == Ending::Exited(0)
            && (said.starts_with("REFUSED") || said.starts_with("NOTHING"))
            && !said.contains(SECRET);
        (!held).then(|| format!("{:?} {said}", ended.ending))
    }

    /// What is wrong with the held run, if anything.
    pub(super) fn fault(&self, ended: &Ended, stage: &Stage) -> Option<String> {
        let said = said(ended);
        if said.starts_with("ESCAPED") || said.contains(SECRET) {
            return Some(format!("escaped: {said}"));
        }
        if self.never.is_some_and(|never| never(stage)) {
            return Some("its effect is seen outside".to_owned());
        }
        if self.never_ended.is_some_and(|never| never(ended)) {
            return Some(format!(
                "bounds were not kept: {} and {} bytes",
                ended.stdout.total, ended.stderr.total
            ));
        }
        let as_expected = match &self.held {
            Held::Refused(errors) => errors.iter().any(|error| {
                said.split(' ').take(2).eq(["REFUSED", error]) && ended.ending == Ending::Exited(0)
            }),
            Held::Nothing => said.starts_with("NOTHING") && ended.ending == Ending::Exited(0),
            Held::LimitSeen(errors) => {
                ended.ending == Ending::ProcessLimit
                    || ended.ending == Ending::Exited(0)
                        && errors.iter().any(|error| said.split(' ').take(2).eq(["REFUSED", error]))
            }
            Held::Bounded => match ended.ending {
                Ending::MemoryLimit | Ending::Exited(77) => true,
                Ending::Exited(0) => said.starts_with("REFUSED"),
                _ => false,
            },
            Held::Masked => {
                ended.ending == Ending::Exited(0)
                    && [
                        "NOTHING",
                        "REFUSED ENOENT",
                        "REFUSED EACCES",
                        "REFUSED EPERM",
                        "REFUSED ENOSYS",
                    ]
                    .iter()
                    .any(|start| said.starts_with(start))
            }
            Held::Ends(endings) => endings.contains(&ended.ending),
        };
        (!as_expected).then(|| format!("held, but not as expected: {:?} {said}", ended.ending))
    }
}

/// The verdict line of an attack, or what it printed instead.
pub(super) fn said(ended: &Ended) -> String {
    let output = [&ended.stdout.head[..], &ended.stdout.tail[..]].concat();
    let output = String::from_utf8_lossy(&output);
    let verdict = output.lines().rev().find(|line| {
        ["ESCAPED", "REFUSED", "NOTHING", "BROKEN"].iter().any(|word| line.starts_with(word))
    });
    match verdict {
        Some(line) => line.to_owned(),
        None => {
            let error = String::from_utf8_lossy(&ended.stderr.head);
            let short = |text: &str| text.chars().take(300).collect::<String>();
            format!("(no verdict; printed {:?} {:?})", short(&output), short(&error))
        }
    }
}
