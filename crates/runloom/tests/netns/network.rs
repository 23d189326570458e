//! A network of its own for one test: the test starts itself again in fresh namespaces in which every address is local.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::corpus::{INWARD, PUBLIC, name_of};

/// Set for the process that is inside.
const INSIDE: &str = "RUNLOOM_TEST_INSIDE_NETWORK";

/// Longer than any of the tests takes, shorter than what the test runner grants.
const AT_MOST_SECONDS: &str = "110";

/// All addresses lead to this network's loopback interface, so that a listener sees every connection. Names resolve
/// by the file given as `$0` only.
const PREPARE: &str = "
set -e
ip link set lo up
ip route add local 0.0.0.0/0 dev lo
ip -6 route add local ::/0 dev lo
mount --bind \"$0\" /etc/hosts
if [ -e /etc/resolv.conf ]; then mount --bind /dev/null /etc/resolv.conf; fi
exec \"$@\"
";

/// Runs the body in a network of its own. `test` is the test's full name, which the process inside is asked for.
pub(crate) fn alone(test: &str, body: impl Future<Output = ()>) {
    if std::env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build();
        runtime.unwrap().block_on(body);
        return;
    }
    let mut names = tempfile::NamedTempFile::new().unwrap();
    names.write_all(hosts().as_bytes()).unwrap();
    let output = Command::new("timeout")
        .args(["--foreground", "--kill-after=5", AT_MOST_SECONDS])
        .arg("unshare")
        .args(namespaces())
        .args(["sh", "-c", PREPARE])
        .arg(names.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr);
    // A name that is not the test's would run nothing, successfully.
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{}\n{said}\n{complained}",
        output.status
    );
}

/// As an ordinary user where the system lets users have namespaces, otherwise as root.
fn namespaces() -> &'static [&'static str] {
    const USER: &[&str] = &["--map-root-user", "--net", "--mount"];
    const ROOT: &[&str] = &["--net", "--mount"];
    let works = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        let status = command.args(arguments).arg("true").stderr(Stdio::null());
        status.status().is_ok_and(|status| status.success())
    };
    [USER, ROOT]
        .into_iter()
        .find(|arguments| works(arguments))
        .unwrap_or_else(|| {
            panic!("this test needs `unshare` (util-linux), `ip` (iproute2) and the right to make network namespaces: user namespaces, or root")
        })
}

/// Every address inside has a name; one name lies inside and outside at once.
fn hosts() -> String {
    use std::fmt::Write as _;
    let mut text = format!(
        "127.0.0.1 localhost\n::1 localhost\n{PUBLIC} example.com mixed.trap.example\n169.254.169.254 mixed.trap.example\n"
    );
    for address in INWARD {
        let _ = writeln!(text, "{address} {}", name_of(address));
    }
    text
}
