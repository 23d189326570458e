//! The first screen of `runloom dev`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::DEMO_MODEL;
use crate::data_dir::DevCredentials;
use crate::exit::Failure;
use crate::output::{self, Span, Style};

/// What the first screen shows besides the address and the key.
pub(super) struct Announcement {
    /// One line for each provider that was found.
    pub(super) found: Vec<String>,
    /// The first model of a found provider.
    pub(super) offered: Option<String>,
    /// The default model.
    pub(super) model: String,
    pub(super) with_dashboard: bool,
    pub(super) data_dir: PathBuf,
}

/// Maximum lines about providers, so that the screen has at most 12 lines.
const MAX_FOUND_LINES: usize = 4;

impl Announcement {
    /// Prints at most 12 lines.
    pub(super) fn print(&self, dev: &DevCredentials, took: Duration) -> Result<(), Failure> {
        output::line(format!("listening on {}", dev.url))?;
        if self.with_dashboard {
            row("open", &dashboard_link(dev), Style::Bold)?;
        }
        row("key", &dev.api_key, Style::Plain)?;
        row("model", &self.model_line(), Style::Plain)?;
        for line in self.found.iter().take(MAX_FOUND_LINES) {
            row("found", line, Style::Plain)?;
        }
        let more = self.found.len().saturating_sub(MAX_FOUND_LINES);
        if more > 0 {
            let more = format!("{more} more: runloom models list");
            row("found", &more, Style::Plain)?;
        }
        let folder = self.data_dir.display();
        row(
            "data",
            &format!("{folder} (ready in {} ms)", took.as_millis()),
            Style::Plain,
        )?;
        row("try", "runloom run \"hello\"", Style::Bold)?;
        output::line("          in another terminal, in this folder. Ctrl-C stops the server.")?;
        Ok(())
    }

    fn model_line(&self) -> String {
        match &self.offered {
            _ if self.model != DEMO_MODEL => self.model.clone(),
            Some(other) => format!("{DEMO_MODEL} (change it: runloom dev --model {other})"),
            None => format!("{DEMO_MODEL} (works offline, follows directives)"),
        }
    }
}

fn row(name: &str, value: &str, style: Style) -> std::io::Result<()> {
    let name = format!("  {name:7} ");
    output::styled_line(&[
        Span {
            text: &name,
            style: Style::Accent,
        },
        Span { text: value, style },
    ])
}

/// The address at which a browser on this machine reaches a listener.
pub(super) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// The link to the dashboard. The key is behind `#`, which browsers do not send to the server.
pub(super) fn dashboard_link(credentials: &DevCredentials) -> String {
    let DevCredentials {
        url,
        workspace,
        api_key,
        ..
    } = credentials;
    format!("{url}/#workspace={workspace}&key={api_key}")
}

/// Opens a link in the browser of the desktop; without one, says so.
pub(super) fn open_browser(link: &str) {
    let program = if cfg!(target_os = "macos") {
        "open"
    } else if cfg!(windows) {
        "explorer"
    } else {
        "xdg-open"
    };
    let started = Command::new(program)
        .arg(link)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Err(error) = started {
        output::note(format!("note: cannot open a browser ({program}: {error})"));
    }
}
