//! Python environments, one per purpose, below `target/xtask`: made once, then only checked.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::Context;

use crate::{debian, place, process, report};

/// Downloads and installs of one environment; a slow mirror is no reason to fail.
const INSTALL_AT_MOST: Duration = Duration::from_secs(15 * 60);

/// After this long an environment without pinned versions looks for newer packages.
const NEWEST_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// An environment: its name and the packages that must be in it.
pub(crate) struct Environment {
    pub(crate) name: &'static str,
    pub(crate) packages: &'static [&'static str],
}

impl Environment {
    /// The environment's interpreter; whatever is missing is installed first.
    pub(crate) fn interpreter(&self) -> anyhow::Result<PathBuf> {
        let folder = place::corner(&format!("venv-{}", self.name))?;
        let interpreter = folder.join("bin").join("python");
        let stamp = folder.join("installed.txt");
        let wanted = self.packages.join("\n");
        let installed = std::fs::read_to_string(&stamp).is_ok_and(|text| text == wanted)
            && process::works(Command::new(&interpreter).arg("--version"));
        if installed && (self.pinned() || is_fresh(&stamp)) {
            return Ok(interpreter);
        }
        if !installed {
            self.create(&folder)?;
        }
        if let Err(error) = self.install(&interpreter) {
            if !installed {
                return Err(error);
            }
            report::complain(&format!(
                "{error:#}; going on with what is installed in {}",
                folder.display()
            ));
        }
        std::fs::write(&stamp, wanted)
            .with_context(|| format!("cannot write {}", stamp.display()))?;
        Ok(interpreter)
    }

    fn pinned(&self) -> bool {
        self.packages.iter().all(|package| package.contains("=="))
    }

    fn create(&self, folder: &Path) -> anyhow::Result<()> {
        let python = system_python()?;
        report::say(&format!("making the Python environment {}", self.name));
        let made = process::run(
            Command::new(python)
                .args(["-m", "venv", "--clear"])
                .arg(folder),
            INSTALL_AT_MOST,
        )?;
        anyhow::ensure!(made, "cannot make {}", folder.display());
        Ok(())
    }

    fn install(&self, interpreter: &Path) -> anyhow::Result<()> {
        report::say(&format!("installing {}", self.packages.join(" ")));
        let installed = process::run(
            Command::new(interpreter)
                .args(["-m", "pip", "install", "--quiet", "--upgrade"])
                .args(self.packages)
                .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
                .env("PIP_NO_INPUT", "1"),
            INSTALL_AT_MOST,
        )?;
        anyhow::ensure!(installed, "pip cannot install {}", self.packages.join(" "));
        Ok(())
    }
}

fn is_fresh(stamp: &Path) -> bool {
    stamp
        .metadata()
        .and_then(|metadata| metadata.modified())
        .ok()
        .and_then(|written| SystemTime::now().duration_since(written).ok())
        .is_some_and(|age| age < NEWEST_FOR)
}

/// A Python that can make environments; on Debian it is installed when it is missing and we may.
fn system_python() -> anyhow::Result<&'static str> {
    if can_make_environments() {
        return Ok("python3");
    }
    debian::install(&["python3", "python3-venv", "python3-pip"])?;
    anyhow::ensure!(
        can_make_environments(),
        "python3 cannot make environments (modules venv and ensurepip): install Python 3.10 or newer"
    );
    Ok("python3")
}

fn can_make_environments() -> bool {
    process::works(Command::new("python3").args(["-c", "import venv, ensurepip"]))
}
