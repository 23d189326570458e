//! Seccomp filter of the sandbox: it allows reading and writing the two pipes, memory, the clock and exit.
//!
//! All other system calls fail with EPERM: files, sockets, processes, inherited descriptors. They do not kill the
//! process, because allocators and the C library try calls that they can do without.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

type Result<T, E = BackendError> = std::result::Result<T, E>;

/// System calls that are allowed with any arguments.
const UNCONDITIONAL: [i64; 16] = [
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_yield,
    libc::SYS_sigaltstack,
];

/// Installs the filter for this thread; it cannot be removed.
pub(super) fn install() -> Result<(), String> {
    let filter = filter().map_err(|error| error.to_string())?;
    let program: seccompiler::BpfProgram =
        filter.try_into().map_err(|e: BackendError| e.to_string())?;
    seccompiler::apply_filter(&program).map_err(|error| error.to_string())
}

fn filter() -> Result<SeccompFilter> {
    let unconditional = UNCONDITIONAL.into_iter();
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        unconditional.map(|call| (call, Vec::new())).collect();
    let execute = u64::from(libc::PROT_EXEC.unsigned_abs());
    let not_executable = || masked(2, execute, 0);
    let no_descriptor = u64::from(u32::MAX);
    let conditional = [
        (libc::SYS_read, vec![equal(0, 0)?]),
        (libc::SYS_write, vec![equal(0, 1)?]),
        (libc::SYS_mprotect, vec![not_executable()?]),
        // Anonymous mappings only.
        (
            libc::SYS_mmap,
            vec![not_executable()?, equal(4, no_descriptor)?],
        ),
        // `abort` signals the own process.
        (
            libc::SYS_tgkill,
            vec![
                equal(0, u64::from(std::process::id()))?,
                equal(2, u64::from(libc::SIGABRT.unsigned_abs()))?,
            ],
        ),
    ];
    for (call, conditions) in conditional {
        rules.insert(call, vec![SeccompRule::new(conditions)?]);
    }
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, refused, SeccompAction::Allow, architecture)
}

fn equal(argument: u8, value: u64) -> Result<SeccompCondition> {
    let length = SeccompCmpArgLen::Dword;
    SeccompCondition::new(argument, length, SeccompCmpOp::Eq, value)
}

fn masked(argument: u8, mask: u64, value: u64) -> Result<SeccompCondition> {
    let operator = SeccompCmpOp::MaskedEq(mask);
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{ErrorKind, Read as _, Write as _};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::process::Command;

    use super::*;

    /// The filter applies to one thread, so the other threads of the test process are not affected.
    #[test]
    fn refuses_files_sockets_processes_threads_and_inherited_descriptors() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut connected = TcpStream::connect(address).unwrap();
        let mut open = File::open("/proc/self/status").unwrap();
        let tried = std::thread::spawn(move || {
            install().unwrap();
            let memory = vec![7_u8; 8 << 20];
            let kind = |tried: std::io::Result<()>| tried.map_err(|error| error.kind());
            let tried = [
                ("open", kind(File::open("/etc/passwd").map(drop))),
                ("create", kind(File::create("x").map(drop))),
                ("connect", kind(TcpStream::connect(address).map(drop))),
                ("listen", kind(TcpListener::bind("127.0.0.1:0").map(drop))),
                ("udp", kind(UdpSocket::bind("127.0.0.1:0").map(drop))),
                ("process", kind(Command::new("/bin/true").spawn().map(drop))),
                ("list", kind(std::fs::read_dir("/").map(drop))),
                ("remove", kind(std::fs::remove_file("x"))),
                ("read inherited", kind(open.read(&mut [0; 8]).map(drop))),
                ("write inherited", kind(connected.write(b"x").map(drop))),
                (
                    "thread",
                    kind(std::thread::Builder::new().spawn(|| ()).map(drop)),
                ),
            ];
            std::mem::forget((open, connected));
            (memory[0], tried)
        });
        let (memory, tried) = tried.join().unwrap();
        assert_eq!(memory, 7);
        for (what, result) in tried {
            assert_eq!(result, Err(ErrorKind::PermissionDenied), "{what}");
        }
    }
}
