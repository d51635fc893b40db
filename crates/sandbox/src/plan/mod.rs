//! The plan of a run: a [`Spec`](crate::Spec) as data, for the keeper to carry out.
//!
//! `compile` checks the spec and makes the plan in the server; the keeper decides nothing.

pub(crate) mod compile;

/// One run, ready to be carried out. Numbers named `fd` are positions in the list of descriptors
/// that travels with it.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Plan {
    pub(crate) act: Act,
    pub(crate) cwd: Vec<u8>,
    /// Places in the root that must exist before anything is mounted, in order.
    pub(crate) places: Vec<Place>,
    pub(crate) binds: Vec<Bind>,
    pub(crate) tmp_size: u64,
    pub(crate) tmp_inodes: u64,
    /// Resource, soft and hard limit.
    pub(crate) rlimits: Vec<(u32, u64, u64)>,
    /// The seccomp program: code, jump if true, jump if false, operand.
    pub(crate) seccomp: Vec<(u16, u8, u8, u32)>,
    pub(crate) stdout: u16,
    pub(crate) stderr: u16,
    /// Number inside, position.
    pub(crate) fds: Vec<(i32, u16)>,
    /// `cgroup.procs` files that the cell's first process writes itself into (v1).
    pub(crate) cgroup_files: Vec<u16>,
    /// Directory of the cgroup the cell is made in (v2).
    pub(crate) cgroup_directory: Option<u16>,
    /// Watch the tree from inside, for want of cgroups.
    pub(crate) watch: Option<Watch>,
    /// Layers left out, by their number.
    pub(crate) left_out: u32,
}

/// What the cell does once it is made.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) enum Act {
    /// Executes a program; the first argument is its name.
    Execute { program: Vec<u8>, arguments: Vec<Vec<u8>>, environment: Vec<Vec<u8>> },
    /// Tries what must not be possible and reports.
    Probe,
}

/// A mount point to be made.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub(crate) struct Place {
    pub(crate) path: Vec<u8>,
    pub(crate) directory: bool,
}

/// A piece of the host to be seen inside.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Bind {
    /// The file itself, by which the keeper knows that it found the right one.
    pub(crate) fd: u16,
    /// Where it was when the plan was made.
    pub(crate) source: Vec<u8>,
    pub(crate) target: Vec<u8>,
    /// Its place lies in the private `/tmp` and is to be made there.
    pub(crate) in_tmp: bool,
    pub(crate) directory: bool,
    pub(crate) read_only: bool,
}

/// Bounds that the cell's init holds by looking.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Watch {
    pub(crate) memory: u64,
    pub(crate) processes: u32,
}

/// The layers of `LeftOut`, by number, so that the keeper need not be compiled
/// differently for tests: the shipped server always sends zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Skip {
    Seccomp,
    Landlock,
    Capabilities,
    NoNewPrivs,
    UserNamespace,
    PidNamespace,
    MountView,
    ReadOnly,
    NetNamespace,
    IpcNamespace,
    UtsNamespace,
    CgroupNamespace,
    CgroupMemory,
    CgroupPids,
    Rlimits,
    ProcMasks,
    MinimalDev,
    CloseFds,
    CleanEnvironment,
    Nosuid,
    Setsid,
    Wall,
    OutputCap,
    TmpLimits,
    Watch,
    CgroupCpu,
}

impl Plan {
    pub(crate) fn skips(&self, layer: Skip) -> bool {
        skips(self.left_out, layer)
    }
}

#[cfg(feature = "leave-out")]
pub(crate) fn skips(left_out: u32, layer: Skip) -> bool {
    left_out & (1 << layer as u32) != 0
}

#[cfg(not(feature = "leave-out"))]
pub(crate) fn skips(_left_out: u32, _layer: Skip) -> bool {
    false
}
