//! The system calls that a sandbox may still make: its two pipes, its memory, the clock, and its end.
//!
//! Everything else is refused by the kernel: files, sockets, processes, and descriptors that were inherited from whoever started
//! the server. Refused, not killed: allocators and the C library ask for things that they can do without.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

type Result<T, E = BackendError> = std::result::Result<T, E>;

/// Calls without conditions.
const FREE: [i64; 16] = [
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

/// Closes everything else for this thread, for good.
pub(super) fn close() -> Result<(), String> {
    let filter = filter().map_err(|error| error.to_string())?;
    let program: seccompiler::BpfProgram =
        filter.try_into().map_err(|e: BackendError| e.to_string())?;
    seccompiler::apply_filter(&program).map_err(|error| error.to_string())
}

fn filter() -> Result<SeccompFilter> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        FREE.into_iter().map(|call| (call, Vec::new())).collect();
    let execute = u64::from(libc::PROT_EXEC.unsigned_abs());
    let data_only = || masked(2, execute, 0);
    let nowhere = u64::from(u32::MAX);
    let conditional = [
        (libc::SYS_read, vec![equal(0, 0)?]),
        (libc::SYS_write, vec![equal(0, 1)?]),
        (libc::SYS_mprotect, vec![data_only()?]),
        // No file behind it.
        (libc::SYS_mmap, vec![data_only()?, equal(4, nowhere)?]),
        // An abort is a signal to oneself.
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

    /// What a thread meets behind the closed doors; other threads of the test are not concerned.
    #[test]
    fn files_sockets_processes_threads_and_inherited_descriptors_are_out_of_reach() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut connected = TcpStream::connect(address).unwrap();
        let mut open = File::open("/proc/self/status").unwrap();
        let tried = std::thread::spawn(move || {
            close().unwrap();
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
