//! Resource use of the process as Linux reports it. Empty on other systems.

use super::text::Text;

/// Adds the process's own values, with the names that Prometheus gives them.
pub(super) fn write(text: &mut Text) {
    if let Some(bytes) = resident_bytes() {
        let help = "Memory of the process.";
        text.gauge("process_resident_memory_bytes", help, bytes);
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        // The handle of this read is among them.
        let open = open.count().saturating_sub(1);
        text.gauge("process_open_fds", "Open file descriptors.", open);
    }
    if let Some(most) = most_files() {
        let help = "Most file descriptors that may be open.";
        text.gauge("process_max_fds", help, most);
    }
}

fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

fn most_files() -> Option<u64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}
