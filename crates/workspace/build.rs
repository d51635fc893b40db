//! Builds the program `inside` as a static one, to be embedded.
//!
//! A build of its own, because it has another linkage than the rest and is always optimised. It
//! asks for nothing but what the outer build has: the same cargo, the same lock file.

use std::path::PathBuf;
use std::process::Command;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let here = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let top = here.join("../..");
    for watched in ["crates/inside/src", "crates/inside/Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", top.join(watched).display());
    }
    println!("cargo::rerun-if-changed=build.rs");
    let target = std::env::var("TARGET")?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    // One for every build of this crate (to check, to test, to run): it is the same program.
    let directory = out.ancestors().nth(4).unwrap_or(&out).join("inside");
    let mut command = Command::new(std::env::var("CARGO")?);
    command
        .args(["build", "--release", "--package", "inside", "--bin", "inside"])
        .args(["--target", &target])
        .arg("--manifest-path")
        .arg(top.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&directory)
        // With the target given, these are for the program and not for what builds it.
        .env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-feature=+crt-static");
    // The outer build's checker and its job tokens are not for this one.
    for name in ["RUSTC_WORKSPACE_WRAPPER", "CARGO_MAKEFLAGS", "MAKEFLAGS", "RUSTFLAGS"] {
        command.env_remove(name);
    }
    let status = command.status()?;
    if !status.success() {
        return Err(
            "the program `inside` cannot be built as a static one; install the C library's \
                    static part (libc6-dev on Debian)"
                .into(),
        );
    }
    let built = out.join("inside-program");
    std::fs::copy(directory.join(target).join("release").join("inside"), &built)?;
    println!("cargo::rustc-env=INSIDE_PROGRAM={}", built.display());
    Ok(())
}
