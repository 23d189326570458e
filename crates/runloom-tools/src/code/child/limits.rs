//! Kernel limits of the sandbox process, which hold even if the engine is compromised.

/// Address space in addition to the engine's memory limit, for messages on the pipes.
#[cfg(target_os = "linux")]
const EXTRA_MB: u64 = 96;

/// Nice value of the sandbox, below the server's priority.
#[cfg(target_os = "linux")]
const NICE: i32 = 5;

/// Limits this process.
///
/// # Errors
/// The limit that could not be set.
#[cfg(unix)]
pub(super) fn apply(memory_mb: u32, cpu_seconds: u64) -> Result<(), String> {
    use rustix::process::{Resource, Rlimit, setrlimit};

    let limit = |resource: Resource, maximum: u64| {
        let limit = Rlimit {
            current: Some(maximum),
            maximum: Some(maximum),
        };
        setrlimit(resource, limit).map_err(|error| format!("{resource:?}: {error}"))
    };
    #[cfg(target_os = "linux")]
    {
        // Read first: after the limits are set, no file can be opened.
        let pages = std::fs::read_to_string("/proc/self/statm").map_err(|e| e.to_string())?;
        let pages = pages.split(' ').next().and_then(|n| n.parse::<u64>().ok());
        let used = pages.unwrap_or_default() * rustix::param::page_size() as u64;
        let own = (u64::from(memory_mb) + EXTRA_MB) * 1024 * 1024;
        // Out of memory, the kernel kills the sandbox before the server.
        let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
        let _ = rustix::process::nice(NICE);
        limit(Resource::As, used + own)?;
        limit(Resource::Nproc, 0)?;
        limit(Resource::Memlock, 0)?;
        limit(Resource::Msgqueue, 0)?;
        rustix::thread::set_no_new_privs(true).map_err(|e| format!("no_new_privs: {e}"))?;
        // Keeps secrets out of core dumps and away from other processes of the same user.
        let undumpable = rustix::process::DumpableBehavior::NotDumpable;
        rustix::process::set_dumpable_behavior(undumpable).map_err(|e| format!("dumpable: {e}"))?;
    }
    #[cfg(not(target_os = "linux"))]
    let _ = memory_mb;
    limit(Resource::Cpu, cpu_seconds)?;
    limit(Resource::Core, 0)?;
    limit(Resource::Fsize, 0)?;
    limit(Resource::Nofile, 0)?;
    #[cfg(all(
        target_os = "linux",
        any(
            target_arch = "x86_64",
            target_arch = "aarch64",
            target_arch = "riscv64"
        )
    ))]
    super::seccomp::install().map_err(|error| format!("seccomp: {error}"))?;
    Ok(())
}

/// Other systems have no such limits, so code tools are refused there.
#[cfg(not(unix))]
pub(super) fn apply(_memory_mb: u32, _cpu_seconds: u64) -> Result<(), String> {
    Err("code tools need a Unix system".to_owned())
}
