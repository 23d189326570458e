//! The stage in which a real browser uses the dashboard and the example page against the real server.

use std::process::Command;
use std::time::Duration;

use crate::report::{Closing, Tally};
use crate::{cargo, debian, node, place, process};

/// All cases; each has a far shorter limit of its own.
const CASES_AT_MOST: Duration = Duration::from_secs(10 * 60);

/// The driver is pinned: it speaks the protocol of the browser, which changes. The others are for the example page.
const PACKAGES: [&str; 3] = ["playwright-core@1.65.1", "@ag-ui/client@1", "esbuild@0"];

/// What Chromium is called: by Debian, and by others.
const CHROMIUM: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];

/// Installs the browser and its driver, and lets them loose.
pub(crate) fn dashboard() -> anyhow::Result<Tally> {
    let chromium = match installed() {
        Some(found) => found,
        None => {
            debian::install(&["chromium"])?;
            installed()
                .ok_or_else(|| anyhow::anyhow!("chromium was installed and does not start"))?
        }
    };
    let folder = node::install("browser", &PACKAGES)?;
    let server = cargo::server_binary()?;
    let repository = place::repository()?;
    let finished = process::run_tests(
        Command::new("node")
            .arg(repository.join("interop/browser/run.mjs"))
            .arg(folder)
            .current_dir(&repository)
            .env("RUNLOOM_BINARY", server)
            .env("CHROMIUM", chromium),
        CASES_AT_MOST,
        Closing::Program,
    )?;
    Ok(finished.as_tests())
}

/// Where the browser is.
fn installed() -> Option<String> {
    CHROMIUM
        .into_iter()
        .filter(|name| process::works(Command::new(name).arg("--version")))
        .find_map(|name| {
            let found = Command::new("sh")
                .args(["-c", "command -v \"$0\"", name])
                .output();
            let path = String::from_utf8(found.ok()?.stdout).ok()?;
            Some(path.trim().to_owned())
        })
}
