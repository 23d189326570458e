//! The only place that prints. Results go to standard output, everything else to standard error.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

/// Prints a line of the result.
pub(crate) fn line(text: impl AsRef<str>) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_ref().as_bytes())?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}

/// Prints a piece of the result at once.
pub(crate) fn piece(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Prints one JSON object on one line.
pub(crate) fn json(value: &impl Serialize) -> io::Result<()> {
    line(serde_json::to_string(value)?)
}

/// Prints a message to standard error. A closed standard error is not a failure.
pub(crate) fn note(text: impl AsRef<str>) {
    let mut stderr = io::stderr().lock();
    let _ = writeln!(stderr, "{}", text.as_ref());
}

/// Prints a dimmed message to standard error, without a line end.
pub(crate) fn faint(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = if colour(&io::stderr()) {
        write!(stderr, "\u{1b}[2m{text}\u{1b}[0m")
    } else {
        stderr.write_all(text.as_bytes())
    };
    let _ = stderr.flush();
}

/// Prints the error that ends the command.
pub(crate) fn error(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = if colour(&io::stderr()) {
        writeln!(stderr, "\u{1b}[31merror:\u{1b}[0m {text}")
    } else {
        writeln!(stderr, "error: {text}")
    };
}

/// A table with aligned columns; the last column is not padded.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let width = |column: usize| {
        let cells = rows
            .iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count());
        cells.chain([head[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let print = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (cell, width) in cells.zip(&widths) {
            text.push_str(&format!("{cell:width$}  "));
        }
        line(text.trim_end())
    };
    print(&mut head.iter().copied())?;
    for row in rows {
        print(&mut row.iter().map(String::as_str))?;
    }
    Ok(())
}

/// True when standard output is a terminal.
pub(crate) fn is_watched() -> bool {
    io::stdout().is_terminal()
}

/// True when standard error shows colours.
fn colour(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none()
}
