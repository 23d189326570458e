//! Debian packages that a stage needs.

use std::process::Command;
use std::time::Duration;

use crate::process;
use crate::report;

/// The download of a package and what it needs.
const INSTALL_AT_MOST: Duration = Duration::from_secs(15 * 60);

/// Installs Debian packages; a clear error when this is no Debian or we are not root.
pub(crate) fn install(packages: &[&str]) -> anyhow::Result<()> {
    let names = packages.join(" ");
    let root = process::works(Command::new("sh").args(["-c", "test \"$(id -u)\" = 0"]));
    let debian = process::works(Command::new("apt-get").arg("--version"));
    anyhow::ensure!(
        root && debian,
        "please install: {names} (we install them only as root on Debian)"
    );
    report::say(&format!("installing {names}"));
    for arguments in [&["update", "-qq"][..], &["install", "-y", "-qq"][..]] {
        let mut command = Command::new("apt-get");
        command
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive");
        if arguments.contains(&"install") {
            command.args(packages);
        }
        let finished = process::run(&mut command, INSTALL_AT_MOST)?;
        anyhow::ensure!(finished, "apt-get cannot install {names}");
    }
    Ok(())
}
