//! CPU time and memory of processes, as /proc reports them.

use anyhow::Context;

/// Clock ticks per second in /proc; 100 on every Linux architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processes that are measured as one: a server, or all processes of a cluster.
#[derive(Debug, Clone)]
pub(crate) struct Processes {
    pids: Vec<u32>,
}

impl Processes {
    pub(crate) fn new(pids: impl IntoIterator<Item = u32>) -> Self {
        Self {
            pids: pids.into_iter().collect(),
        }
    }

    /// CPU seconds used so far, user and system, of all threads including ended ones. The resolution is 10 ms, so a
    /// measurement must use far more than that.
    pub(crate) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        self.sum(|pid| {
            let stat = read(pid, "stat")?;
            let ticks = CpuTicks::parse(&stat).context("unexpected format of /proc/PID/stat")?;
            Ok(ticks.own / TICKS_PER_SECOND)
        })
    }

    /// Resident memory in bytes.
    pub(crate) fn resident_bytes(&self) -> anyhow::Result<f64> {
        self.sum(|pid| status_bytes(pid, "VmRSS:"))
    }

    /// Peak resident memory in bytes; of several processes the sum of their peaks.
    pub(crate) fn peak_resident_bytes(&self) -> anyhow::Result<f64> {
        self.sum(|pid| status_bytes(pid, "VmHWM:"))
    }

    fn sum(&self, value: impl Fn(u32) -> anyhow::Result<f64>) -> anyhow::Result<f64> {
        self.pids.iter().map(|pid| value(*pid)).sum()
    }
}

/// CPU ticks of one process.
struct CpuTicks {
    own: f64,
    /// Of children that have ended.
    children: f64,
}

impl CpuTicks {
    fn parse(stat: &str) -> Option<Self> {
        // The second field is the program's name in brackets and may contain blanks.
        let (_, fields) = stat.rsplit_once(") ")?;
        let ticks: Vec<f64> = fields
            .split(' ')
            .skip(11)
            .take(4)
            .map(str::parse)
            .collect::<Result<_, _>>()
            .ok()?;
        let [user, system, children_user, children_system] = ticks[..] else {
            return None;
        };
        Some(Self {
            own: user + system,
            children: children_user + children_system,
        })
    }
}

/// CPU seconds of all processes of this machine with the given program name, ended children included; `None` when
/// there is none.
pub(crate) fn cpu_seconds_of_program(name: &str) -> anyhow::Result<Option<f64>> {
    let mut total = None;
    for entry in std::fs::read_dir("/proc").context("cannot list /proc")? {
        let folder = entry?.path();
        // Files that cannot be read belong to processes that ended meanwhile, or to no process.
        let command = std::fs::read_to_string(folder.join("comm")).unwrap_or_default();
        if command.trim_end() != name {
            continue;
        }
        let stat = std::fs::read_to_string(folder.join("stat")).unwrap_or_default();
        if let Some(ticks) = CpuTicks::parse(&stat) {
            let seconds = (ticks.own + ticks.children) / TICKS_PER_SECOND;
            *total.get_or_insert(0.0) += seconds;
        }
    }
    Ok(total)
}

fn status_bytes(pid: u32, name: &str) -> anyhow::Result<f64> {
    let status = read(pid, "status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .with_context(|| format!("/proc/{pid}/status has no {name}"))?;
    let kib = line.trim().trim_end_matches(" kB").trim();
    let kib: f64 = kib
        .parse()
        .with_context(|| format!("{name} of /proc/{pid}/status is not a number"))?;
    Ok(kib * 1024.0)
}

fn read(pid: u32, file: &str) -> anyhow::Result<String> {
    let path = format!("/proc/{pid}/{file}");
    std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {path}; the process may have ended"))
}

/// CPU ticks of the whole machine since it was started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MachineTicks {
    total: f64,
    /// Ticks in which the hypervisor ran other guests although this one was ready.
    stolen: f64,
}

impl MachineTicks {
    pub(crate) fn now() -> anyhow::Result<Self> {
        let stat = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        Self::parse(&stat).context("unexpected format of /proc/stat")
    }

    fn parse(stat: &str) -> Option<Self> {
        let ticks = stat.lines().next()?.strip_prefix("cpu ")?;
        // user, nice, system, idle, iowait, irq, softirq, steal; guest time is already part of user.
        let ticks = ticks.split_whitespace().take(8);
        let ticks: Vec<f64> = ticks.map(str::parse).collect::<Result<_, _>>().ok()?;
        Some(Self {
            total: ticks.iter().sum(),
            stolen: *ticks.get(7)?,
        })
    }

    /// Percentage of CPU time stolen since `earlier`. Times measured while it is high mean little.
    pub(crate) fn stolen_percent_since(self, earlier: Self) -> f64 {
        (self.stolen - earlier.stolen) / (self.total - earlier.total).max(1.0) * 100.0
    }
}

/// The limit of open files of this process, which its children inherit.
pub(crate) fn open_files_limit() -> anyhow::Result<usize> {
    let limits =
        std::fs::read_to_string("/proc/self/limits").context("cannot read /proc/self/limits")?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))
        .context("/proc/self/limits has no \"Max open files\"")?;
    let soft = line.split_whitespace().next().unwrap_or_default();
    Ok(soft.parse().unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::{CpuTicks, MachineTicks, Processes, cpu_seconds_of_program, open_files_limit};

    #[test]
    fn reads_usage_of_the_current_process() {
        let processes = Processes::new([std::process::id()]);
        assert!(processes.cpu_seconds().unwrap() >= 0.0);
        let resident = processes.resident_bytes().unwrap();
        assert!(resident > 100_000.0);
        assert!(processes.peak_resident_bytes().unwrap() >= resident / 2.0);
        assert!(open_files_limit().unwrap() > 0);
    }

    #[test]
    fn sums_usage_over_processes() {
        let id = std::process::id();
        let one = Processes::new([id]).resident_bytes().unwrap();
        let two = Processes::new([id, id]).resident_bytes().unwrap();
        assert!(two > one * 1.5, "{two} is not twice {one}");
    }

    #[test]
    fn finds_processes_by_program_name() {
        let name = std::fs::read_to_string("/proc/self/comm").unwrap();
        assert!(cpu_seconds_of_program(name.trim_end()).unwrap().is_some());
        assert_eq!(cpu_seconds_of_program("no such program").unwrap(), None);
    }

    #[test]
    fn parses_cpu_ticks_after_a_name_with_blanks() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194560 100 0 0 0 30 12 5 6 20 0 1 0";
        let ticks = CpuTicks::parse(stat).unwrap();
        assert!((ticks.own - 42.0).abs() < 1e-9, "{}", ticks.own);
        assert!((ticks.children - 11.0).abs() < 1e-9, "{}", ticks.children);
        assert!(CpuTicks::parse("7 (a) S 1").is_none());
    }

    #[test]
    fn computes_the_stolen_share_of_elapsed_ticks() {
        let at = |user: u32, stolen: u32| {
            let stat = format!("cpu  {user} 0 10 50 5 0 5 {stolen} 7 0\ncpu0 1 2 3\n");
            MachineTicks::parse(&stat).unwrap()
        };
        let stolen = at(170, 30).stolen_percent_since(at(100, 0));
        assert!((stolen - 30.0).abs() < 1e-9, "{stolen}");
        assert!(MachineTicks::parse("cpu0 1 2").is_none());
        let now = MachineTicks::now().unwrap();
        assert!((0.0..=100.0).contains(&now.stolen_percent_since(now)));
    }

    #[test]
    fn reports_a_process_that_does_not_exist() {
        assert!(Processes::new([u32::MAX]).cpu_seconds().is_err());
    }
}
