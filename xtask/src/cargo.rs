//! The stages that are cargo's. All of them use the dev profile, so that nothing is built twice.

use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use crate::debian;
use crate::place;
use crate::process;
use crate::report::{self, Closing, Tally};

/// A first build of everything on a small machine takes long; beyond this something hangs.
pub(crate) const BUILD_AT_MOST: Duration = Duration::from_secs(90 * 60);

/// Cargo itself, in the repository, told about colours.
pub(crate) fn cargo() -> anyhow::Result<Command> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(place::repository()?);
    command.env(
        "CARGO_TERM_COLOR",
        if report::colours() { "always" } else { "never" },
    );
    command.env("CARGO_TERM_PROGRESS_WHEN", "never");
    Ok(command)
}

/// `cargo fmt --check`.
pub(crate) fn format() -> anyhow::Result<Tally> {
    // rustfmt colours its differences even into a pipe unless it is told.
    let colour = if report::colours() { "always" } else { "never" };
    check(&["fmt", "--all", "--check", "--", "--color", colour])
}

/// `cargo clippy` with every warning an error.
pub(crate) fn clippy() -> anyhow::Result<Tally> {
    let strictly = |targets: &[&str]| {
        let (before, after) = (
            ["clippy", "--workspace"],
            ["--quiet", "--", "-D", "warnings"],
        );
        check(&[&before[..], targets, &after].concat())
    };
    let mut tally = strictly(&["--all-targets"])?;
    // "All" leaves out the targets that need services.
    tally += strictly(&[
        "--test=postgres",
        "--test=services",
        "--test=cluster",
        "--test=faults",
        "--test=netns",
        "--test=tls",
    ])?;
    Ok(tally)
}

/// Writes the OpenAPI document: the test that compares it writes it instead.
pub(crate) fn openapi() -> anyhow::Result<bool> {
    let mut command = cargo()?;
    command.args(["test", "--package", "runloom-http", "--lib", "--quiet"]);
    command.args([
        "--",
        "--exact",
        "openapi::tests::committed_document_is_current",
    ]);
    command.env("RUNLOOM_UPDATE_OPENAPI", "1");
    process::run(&mut command, BUILD_AT_MOST)
}

/// `cargo deny`, when it is installed: a tool for the reviewer's machine, which the test command
/// does without.
pub(crate) fn deny() -> anyhow::Result<Tally> {
    if !has_subcommand("deny")? {
        report::say("not run: cargo-deny is not installed (cargo install cargo-deny)");
        return Ok(Tally::default());
    }
    check(&["deny", "check", "licenses", "bans", "sources"])
}

/// The workspace's tests, by nextest when it is there, otherwise by cargo alone.
pub(crate) fn tests() -> anyhow::Result<Tally> {
    if has_subcommand("nextest")? {
        return counted(
            Closing::Nextest,
            &[
                "nextest",
                "run",
                "--workspace",
                "--no-fail-fast",
                "--no-tests=pass",
                "--retries=0",
            ],
        );
    }
    report::say("cargo-nextest is not installed: the tests run by cargo test");
    counted(
        Closing::Libtest,
        &[
            "test",
            "--workspace",
            "--no-fail-fast",
            "--lib",
            "--bins",
            "--tests",
        ],
    )
}

/// The store on PostgreSQL. The tests name the server they want when there is none.
pub(crate) fn postgres() -> anyhow::Result<Tally> {
    one_target("postgres")
}

/// The tests that talk to other services, which the rest does without. They say where they looked when one is not
/// there.
pub(crate) fn services() -> anyhow::Result<Tally> {
    one_target("services")
}

/// The outbound guard in network namespaces. Programs that are missing are installed where possible.
pub(crate) fn netns() -> anyhow::Result<Tally> {
    install_missing(&[
        Program {
            name: "unshare",
            version_flag: "--version",
            package: "util-linux",
        },
        Program {
            name: "ip",
            version_flag: "-V",
            package: "iproute2",
        },
    ])?;
    one_target("netns")
}

/// The server against a provider behind nginx. Programs that are missing are installed where possible.
pub(crate) fn tls() -> anyhow::Result<Tally> {
    install_missing(&[
        Program {
            name: "nginx",
            version_flag: "-v",
            package: "nginx-light",
        },
        Program {
            name: "openssl",
            version_flag: "version",
            package: "openssl",
        },
    ])?;
    one_target("tls")
}

/// A program that a stage needs.
struct Program {
    name: &'static str,
    /// Makes it print its version and end.
    version_flag: &'static str,
    /// Debian's package.
    package: &'static str,
}

fn install_missing(programs: &[Program]) -> anyhow::Result<()> {
    for program in programs {
        if !process::works(Command::new(program.name).arg(program.version_flag)) {
            debian::install(&[program.package])?;
        }
    }
    Ok(())
}

/// Several processes of the server on the same services.
pub(crate) fn cluster() -> anyhow::Result<Tally> {
    one_target("cluster")
}

/// The fault suite in its short form.
pub(crate) fn faults() -> anyhow::Result<Tally> {
    one_target("faults")
}

/// Runs a test target that `cargo test` alone passes over. Asked of the whole workspace and not of one package,
/// because the features of dependencies go by what is built together: everything is built once.
fn one_target(name: &str) -> anyhow::Result<Tally> {
    let target = ["--workspace", "--test", name];
    let (closing, how) = if has_subcommand("nextest")? {
        let how = &["nextest", "run", "--no-fail-fast", "--retries=0"][..];
        (Closing::Nextest, how)
    } else {
        (Closing::Libtest, &["test", "--no-fail-fast"][..])
    };
    counted(closing, &[how, &target].concat())
}

/// The documentation's examples, which nextest does not run.
pub(crate) fn doctests() -> anyhow::Result<Tally> {
    counted(
        Closing::Libtest,
        &["test", "--workspace", "--doc", "--no-fail-fast"],
    )
}

/// Builds the server and says where it lies.
pub(crate) fn server_binary() -> anyhow::Result<std::path::PathBuf> {
    let built = process::run(
        cargo()?.args(["build", "--workspace", "--bin", "runloom", "--quiet"]),
        BUILD_AT_MOST,
    )?;
    anyhow::ensure!(built, "the server does not build");
    let binary = place::target()?.join("debug").join("runloom");
    binary
        .metadata()
        .with_context(|| format!("the build left no {}", binary.display()))?;
    Ok(binary)
}

fn check(arguments: &[&str]) -> anyhow::Result<Tally> {
    process::run(cargo()?.args(arguments), BUILD_AT_MOST).map(Tally::of_check)
}

fn counted(closing: Closing, arguments: &[&str]) -> anyhow::Result<Tally> {
    let finished = process::run_tests(cargo()?.args(arguments), BUILD_AT_MOST, closing)?;
    Ok(finished.as_tests())
}

fn has_subcommand(name: &str) -> anyhow::Result<bool> {
    Ok(process::works(cargo()?.args([name, "--version"])))
}
