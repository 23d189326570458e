//! What a process has used, as the kernel counts it.

use anyhow::Context;

/// The kernel's tick in user space; 100 on every architecture of Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads the counters of one process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Meter {
    pid: u32,
}

impl Meter {
    /// A meter for the process.
    pub(crate) fn of(pid: u32) -> Self {
        Self { pid }
    }

    /// CPU seconds so far, user and system, of all threads, dead ones included. Grows in steps of 10 ms, so what is
    /// measured must use far more.
    pub(crate) fn cpu(self) -> anyhow::Result<f64> {
        let stat = self.read("stat")?;
        // The second field is the program's name in brackets and may hold blanks.
        let (_, fields) = stat.rsplit_once(") ").context("a strange /proc stat")?;
        let mut fields = fields.split(' ').skip(11);
        let mut ticks = 0.0;
        for _ in 0..2 {
            let field = fields.next().context("a short /proc stat")?;
            ticks += field.parse::<f64>().context("a strange /proc stat")?;
        }
        Ok(ticks / TICKS_PER_SECOND)
    }

    /// Resident memory now, in bytes.
    pub(crate) fn resident(self) -> anyhow::Result<f64> {
        self.status("VmRSS:")
    }

    /// The most resident memory so far, in bytes.
    pub(crate) fn peak(self) -> anyhow::Result<f64> {
        self.status("VmHWM:")
    }

    fn status(self, name: &str) -> anyhow::Result<f64> {
        let status = self.read("status")?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .with_context(|| format!("the kernel tells no {name}"))?;
        let kib = line.trim().trim_end_matches(" kB").trim();
        Ok(kib.parse::<f64>().context("a strange /proc status")? * 1024.0)
    }

    fn read(self, file: &str) -> anyhow::Result<String> {
        let path = format!("/proc/{}/{file}", self.pid);
        std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {path}: has the process died?"))
    }
}

/// What the processors of this machine did so far, in ticks of each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Processors {
    all: f64,
    /// Ready to work for this machine while another one of the same host had them.
    stolen: f64,
}

impl Processors {
    /// Until now.
    pub(crate) fn so_far() -> anyhow::Result<Self> {
        let stat = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        Self::parse(&stat).context("a strange /proc/stat")
    }

    fn parse(stat: &str) -> Option<Self> {
        let ticks = stat.lines().next()?.strip_prefix("cpu ")?;
        // user, nice, system, idle, iowait, irq, softirq, steal; guests are counted as user already.
        let ticks = ticks.split_whitespace().take(8);
        let ticks: Vec<f64> = ticks.map(str::parse).collect::<Result<_, _>>().ok()?;
        Some(Self {
            all: ticks.iter().sum(),
            stolen: *ticks.get(7)?,
        })
    }

    /// Which part of their time others had since then, in hundredths. Where it is much, times mean little.
    pub(crate) fn stolen_since(self, then: Self) -> f64 {
        (self.stolen - then.stolen) / (self.all - then.all).max(1.0) * 100.0
    }
}

/// How many files this process, and so its children, may have open.
pub(crate) fn open_files_limit() -> anyhow::Result<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits").context("cannot read the limits")?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))
        .context("the kernel tells no limit of open files")?;
    let soft = line.split_whitespace().next().unwrap_or_default();
    Ok(soft.parse().unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::{Meter, Processors, open_files_limit};

    #[test]
    fn our_own_process_can_be_metered() {
        let meter = Meter::of(std::process::id());
        assert!(meter.cpu().unwrap() >= 0.0);
        assert!(meter.resident().unwrap() > 100_000.0);
        assert!(meter.peak().unwrap() >= meter.resident().unwrap() / 2.0);
        assert!(open_files_limit().unwrap() > 0);
    }

    #[test]
    fn what_others_had_is_a_part_of_all_that_passed() {
        let at = |user: u32, stolen: u32| {
            let stat = format!("cpu  {user} 0 10 50 5 0 5 {stolen} 7 0\ncpu0 1 2 3\n");
            Processors::parse(&stat).unwrap()
        };
        let stolen = at(170, 30).stolen_since(at(100, 0));
        assert!((stolen - 30.0).abs() < 1e-9, "{stolen}");
        assert!(Processors::parse("cpu0 1 2").is_none());
        let now = Processors::so_far().unwrap();
        assert!((0.0..=100.0).contains(&now.stolen_since(now)));
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        assert!(Meter::of(u32::MAX).cpu().is_err());
    }
}
