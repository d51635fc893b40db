//! Mount namespaces made ahead, each with a complete read-only root and nothing else of the host.
//!
//! A cell starts as a copy of one, so what costs most of a cold start is done once. They differ
//! only in the mount points that specs ask for; a few are kept.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::serve::Context;
use super::wire::{Failure, Stage};
use crate::Way;
use crate::plan::{Place, Plan, Skip, skips};
use crate::sys::{self, Errno};
use crate::view;

const KEPT: usize = 16;

/// The templates that exist, most recently used last.
#[derive(Default)]
pub(crate) struct Templates {
    made: Vec<Template>,
}

struct Template {
    places: Vec<Place>,
    left_out: u32,
    namespace: OwnedFd,
}

impl Templates {
    /// The template prepared last.
    pub(crate) fn current(&self) -> Result<BorrowedFd<'_>, Errno> {
        self.made.last().map(|made| made.namespace.as_fd()).ok_or(Errno(libc::ENOENT))
    }
}

/// Makes sure that the template this plan needs is the current one.
pub(crate) fn prepare(plan: &Plan, context: &mut Context) -> Result<(), Failure> {
    let made = &mut context.templates.made;
    let known =
        made.iter().position(|made| made.places == plan.places && made.left_out == plan.left_out);
    if let Some(position) = known {
        let template = made.remove(position);
        made.push(template);
        return Ok(());
    }
    let namespace = build(plan, context)?;
    let made = &mut context.templates.made;
    if made.len() >= KEPT {
        made.remove(0);
    }
    made.push(Template { places: plan.places.clone(), left_out: plan.left_out, namespace });
    Ok(())
}

fn build(plan: &Plan, context: &Context) -> Result<OwnedFd, Failure> {
    let failed = |errno| Stage::SystemView.failed(errno);
    sys::leave_namespaces(libc::CLONE_NEWNS).map_err(failed)?;
    let built = fill(plan, context).and_then(|()| context.own_mount_namespace().map_err(failed));
    // A keeper that is not in the host's view would mount the wrong things.
    if sys::enter_namespace(context.host.as_fd(), libc::CLONE_NEWNS).is_err() {
        sys::end(1);
    }
    built
}

fn fill(plan: &Plan, context: &Context) -> Result<(), Failure> {
    let failed = |errno| Stage::SystemView.failed(errno);
    let scaffold = Scaffold { left_out: plan.left_out };
    let root = if plan.skips(Skip::MountView) {
        sys::clone_tree(sys::AT_CWD, c"/").map_err(failed)?
    } else {
        let options = [(c"size", c"4m"), (c"nr_inodes", c"4096"), (c"mode", c"0755")];
        sys::new_file_system(
            c"tmpfs",
            &options,
            scaffold.attributes(sys::NO_DEVICES) & !sys::READ_ONLY,
        )
        .map_err(failed)?
    };
    // Any directory will do: the namespace is a copy, and what lies over it is its root soon.
    let over = sys::open(sys::AT_CWD, c"/proc", libc::O_PATH, 0).map_err(failed)?;
    sys::attach(root.as_fd(), over.as_fd()).map_err(failed)?;
    if !plan.skips(Skip::MountView) {
        scaffold.system(root.as_fd()).map_err(failed)?;
        scaffold.devices(root.as_fd()).map_err(failed)?;
        for place in &plan.places {
            let position = plan.binds.iter().position(|bind| bind.target == place.path);
            make_place(root.as_fd(), place).map_err(|errno| {
                Stage::MountTarget.failed_at(position.unwrap_or_default(), errno)
            })?;
        }
    }
    if context.way != Way::Root {
        // A fresh /proc may be mounted only where one is seen already: so this is made while the
        // host's still is, and the cell takes it away when it has its own.
        let attributes = sys::NO_SUID | sys::NO_DEVICES | sys::NO_EXEC;
        let proc = sys::new_file_system(c"proc", &[], attributes).map_err(failed)?;
        let place = sys::open(root.as_fd(), c"proc", libc::O_PATH, 0).map_err(failed)?;
        sys::attach(proc.as_fd(), place.as_fd()).map_err(failed)?;
    }
    sys::change_directory_to(root.as_fd()).map_err(failed)?;
    sys::pivot_to_current_directory().map_err(failed)?;
    let attributes = scaffold.attributes(0);
    if attributes != 0 {
        sys::restrict_mount(root.as_fd(), attributes).map_err(failed)?;
    }
    sys::make_private(root.as_fd()).map_err(failed)
}

struct Scaffold {
    left_out: u32,
}

impl Scaffold {
    fn attributes(&self, more: u64) -> u64 {
        let mut attributes = more;
        if !skips(self.left_out, Skip::ReadOnly) {
            attributes |= sys::READ_ONLY;
        }
        if skips(self.left_out, Skip::Nosuid) {
            attributes &= !sys::NO_DEVICES;
        } else {
            attributes |= sys::NO_SUID;
        }
        attributes
    }

    /// Binds a host directory or file at the same place, read-only.
    fn bind(&self, root: BorrowedFd<'_>, name: &str, more: u64) -> Result<(), Errno> {
        let from = sys::c_string(format!("/{name}").as_bytes())?;
        let place = sys::c_string(name.as_bytes())?;
        let tree = sys::clone_tree(sys::AT_CWD, &from)?;
        let attributes = self.attributes(more);
        if attributes != 0 {
            sys::restrict_mount(tree.as_fd(), attributes)?;
        }
        let place = sys::open(root, &place, libc::O_PATH, 0)?;
        sys::attach(tree.as_fd(), place.as_fd())
    }

    fn system(&self, root: BorrowedFd<'_>) -> Result<(), Errno> {
        for name in view::SYSTEM {
            let host = format!("/{name}");
            let Ok(found) = std::fs::symlink_metadata(&host) else { continue };
            let place = sys::c_string(name.as_bytes())?;
            if found.is_symlink() {
                let target = std::fs::read_link(&host).map_err(|_| Errno(libc::EIO))?;
                let target = std::os::unix::ffi::OsStrExt::as_bytes(target.as_os_str());
                sys::make_link(&sys::c_string(target)?, root, &place)?;
            } else {
                sys::make_directory(root, &place, 0o755)?;
                self.bind(root, name, sys::NO_DEVICES)?;
            }
        }
        for name in ["etc", "proc", "dev", "run", "var"] {
            sys::make_directory(root, &sys::c_string(name.as_bytes())?, 0o755)?;
        }
        sys::make_directory(root, c"tmp", 0o1777)?;
        sys::make_link(c"/tmp", root, c"var/tmp")?;
        for name in view::ETC_DIRECTORIES {
            if std::fs::metadata(format!("/{name}")).is_ok_and(|found| found.is_dir()) {
                let path = format!("/{name}").into_bytes();
                make_place(root, &Place { path, directory: true })?;
                self.bind(root, name, sys::NO_DEVICES)?;
            }
        }
        for name in view::ETC_FILES {
            if let Ok(content) = std::fs::read(format!("/{name}")) {
                write_new(root, name, &content)?;
            }
        }
        for (name, content) in view::ETC_SYNTHETIC {
            write_new(root, name, content.as_bytes())?;
        }
        let inside =
            |path: &std::ffi::CStr| String::from_utf8_lossy(&path.to_bytes()[1..]).into_owned();
        write_new(root, &inside(view::EMPTY_FILE), b"")?;
        let path = view::EMPTY_DIRECTORY.to_bytes().to_vec();
        make_place(root, &Place { path, directory: true })
    }

    fn devices(&self, root: BorrowedFd<'_>) -> Result<(), Errno> {
        if skips(self.left_out, Skip::MinimalDev) {
            let tree = sys::clone_tree(sys::AT_CWD, c"/dev")?;
            let place = sys::open(root, c"dev", libc::O_PATH, 0)?;
            return sys::attach(tree.as_fd(), place.as_fd());
        }
        for name in view::DEVICES {
            let name = format!("dev/{name}");
            write_new(root, &name, b"")?;
            self.bind(root, &name, sys::NO_EXEC)?;
        }
        for (name, target) in view::DEVICE_LINKS {
            let place = sys::c_string(format!("dev/{name}").as_bytes())?;
            sys::make_link(&sys::c_string(target.as_bytes())?, root, &place)?;
        }
        Ok(())
    }
}

fn write_new(root: BorrowedFd<'_>, name: &str, content: &[u8]) -> Result<(), Errno> {
    if let Some((parent, _)) = name.rsplit_once('/') {
        make_place(root, &Place { path: format!("/{parent}").into_bytes(), directory: true })?;
    }
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
    let file = sys::open(root, &sys::c_string(name.as_bytes())?, flags, 0)?;
    rustix::fs::fchmod(&file, rustix::fs::Mode::from_raw_mode(0o644))
        .map_err(|error| Errno(error.raw_os_error()))?;
    let mut rest = content;
    while !rest.is_empty() {
        let piece = &rest[..rest.len().min(1 << 16)];
        sys::write(file.as_fd(), piece)?;
        rest = &rest[piece.len()..];
    }
    Ok(())
}

/// Makes a mount point and its parents below `root`. Follows no link: what a name on the way
/// leads to is decided by nobody but us.
pub(crate) fn make_place(root: BorrowedFd<'_>, place: &Place) -> Result<(), Errno> {
    let parts: Vec<&[u8]> =
        place.path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
    let mut here = sys::open(root, c".", libc::O_PATH | libc::O_DIRECTORY, 0)?;
    for (position, part) in parts.iter().enumerate() {
        let name = sys::c_string(part)?;
        let last = position + 1 == parts.len();
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        let found = match sys::open(here.as_fd(), &name, flags, sys::RESOLVE_NO_LINKS) {
            Err(Errno(libc::ENOENT)) if last && !place.directory => {
                let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
                sys::open(here.as_fd(), &name, flags, sys::RESOLVE_NO_LINKS)
            }
            Err(Errno(libc::ENOENT)) => {
                sys::make_directory(here.as_fd(), &name, 0o755)?;
                sys::open(here.as_fd(), &name, flags, sys::RESOLVE_NO_LINKS)
            }
            other => other,
        }?;
        here = found;
    }
    let found = sys::identity(here.as_fd())?;
    if found.is_directory() != place.directory {
        return Err(Errno(if place.directory { libc::ENOTDIR } else { libc::EISDIR }));
    }
    Ok(())
}
