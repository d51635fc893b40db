//! Every test again as an ordinary user: this executable, copied to where that user can read it,
//! executed with another id.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

pub(crate) const MARK: &str = "PINFOLD_TEST_ORDINARY";
const USER: u32 = 12_345;

#[test]
fn everything_holds_as_an_ordinary_user() {
    if std::env::var_os(MARK).is_some() {
        return;
    }
    if !crate::ground::is_root() {
        crate::ground::skip(
            "the tests do not run as root, so they already run as an ordinary user",
        );
        return;
    }
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let copy = place.path().join("it");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o755)).unwrap();
    let output = std::process::Command::new(&copy)
        .env(MARK, "1")
        .env("RUST_BACKTRACE", "0")
        .current_dir("/")
        .uid(USER)
        .gid(USER)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "as user {USER}:\n{said}");
    assert!(said.contains(" passed"), "no test ran:\n{said}");
}
