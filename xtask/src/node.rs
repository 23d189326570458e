//! Packages of npm, below `target/xtask`: installed once, then only checked.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use crate::{place, process, report};

/// The download of some packages and what they need.
const INSTALL_AT_MOST: Duration = Duration::from_secs(15 * 60);

/// Installs the packages into a folder of that name; the stamp says which are there.
pub(crate) fn install(name: &str, packages: &[&str]) -> anyhow::Result<PathBuf> {
    let folder = place::corner(name)?;
    let stamp = folder.join("installed.txt");
    let wanted = packages.join(" ");
    if std::fs::read_to_string(&stamp).is_ok_and(|text| text == wanted) {
        return Ok(folder);
    }
    anyhow::ensure!(
        process::works(Command::new("npm").arg("--version")),
        "npm is missing: install Node.js 20 or newer"
    );
    report::say(&format!("installing {wanted}"));
    let installed = process::run(
        Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--loglevel=error"])
            .arg("--prefix")
            .arg(&folder)
            .args(packages)
            .current_dir(&folder),
        INSTALL_AT_MOST,
    )?;
    anyhow::ensure!(installed, "npm cannot install {wanted}");
    std::fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))?;
    Ok(folder)
}
