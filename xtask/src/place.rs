//! Where things are: the repository, the build directory and our own corner of it.

use std::path::{Path, PathBuf};

use anyhow::Context;

/// The root of the repository.
pub(crate) fn repository() -> anyhow::Result<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(Path::to_path_buf)
        .context("the xtask crate has no parent folder")
}

/// Cargo's target directory, found from where this very program lies, so that
/// `CARGO_TARGET_DIR` and its relatives need no second interpretation here.
pub(crate) fn target() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe().context("cannot tell where this program lies")?;
    program
        .ancestors()
        .nth(2)
        .map(Path::to_path_buf)
        .with_context(|| format!("{} does not lie in a target directory", program.display()))
}

/// A folder of ours below the target directory, created when it is missing.
pub(crate) fn corner(name: &str) -> anyhow::Result<PathBuf> {
    let folder = target()?.join("xtask").join(name);
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}
