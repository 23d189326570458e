//! What the kernel keeps the child from, whatever becomes of the engine in it.

/// Address space beside the engine's own memory: for what goes through the pipes.
#[cfg(target_os = "linux")]
const BESIDE_MB: u64 = 96;

/// How much code stands back when the processor is wanted by others.
#[cfg(target_os = "linux")]
const NICE: i32 = 5;

/// Limits this process. Errors say which limit could not be set.
#[cfg(unix)]
pub(super) fn close_doors(memory_mb: u32, cpu_seconds: u64) -> Result<(), String> {
    use rustix::process::{Resource, Rlimit, setrlimit};

    let limit = |resource: Resource, most: u64| {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        setrlimit(resource, limit).map_err(|error| format!("{resource:?}: {error}"))
    };
    #[cfg(target_os = "linux")]
    {
        // Read before the doors are closed: afterwards no file can be opened.
        let pages = std::fs::read_to_string("/proc/self/statm").map_err(|e| e.to_string())?;
        let pages = pages.split(' ').next().and_then(|n| n.parse::<u64>().ok());
        let used = pages.unwrap_or_default() * rustix::param::page_size() as u64;
        let own = (u64::from(memory_mb) + BESIDE_MB) * 1024 * 1024;
        // When the machine has no memory left, code goes before the server does; and it waits for the processor behind it.
        let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
        let _ = rustix::process::nice(NICE);
        limit(Resource::As, used + own)?;
        limit(Resource::Nproc, 0)?;
        limit(Resource::Memlock, 0)?;
        limit(Resource::Msgqueue, 0)?;
        rustix::thread::set_no_new_privs(true).map_err(|e| format!("no_new_privs: {e}"))?;
        // Neither dumps nor other processes of the same user can read the secrets in here.
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
    super::calls::close().map_err(|error| format!("seccomp: {error}"))?;
    Ok(())
}

/// Elsewhere there are no such limits, and so there are no code tools.
#[cfg(not(unix))]
pub(super) fn close_doors(_memory_mb: u32, _cpu_seconds: u64) -> Result<(), String> {
    Err("code tools need a Unix system".to_owned())
}
