//! `runloom runs …`: list, show and control runs.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::Subcommand;
use runloom_client::protocol::id::RunId;
use runloom_client::protocol::resource::{RunListItem, RunSnapshot, RunStatus};
use runloom_client::{Client, RunFilter};

use super::replay::{self, Source};
use crate::config::Environment;
use crate::exit::{Exit, Failure};
use crate::render::{self, Form, OnInterrupt, preview, summary};
use crate::{connect, output};

/// Version of the export format.
const EXPORT_VERSION: u32 = 1;

/// `runloom runs …`.
#[derive(Debug, Subcommand)]
pub(crate) enum Runs {
    /// List runs, newest first
    List {
        /// Only runs in this state: queued, running, waiting_tool, waiting_approval, succeeded, failed, cancelled
        #[arg(long, value_parser = status)]
        status: Option<RunStatus>,
        /// Only runs of this model
        #[arg(long)]
        model: Option<String>,
        /// Only runs with this label; may be repeated
        #[arg(long, value_name = "KEY:VALUE", value_parser = label)]
        metadata: Vec<(String, String)>,
        /// Maximum number
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
        limit: u32,
        /// The cursor of the next page, from the previous page
        #[arg(long)]
        cursor: Option<String>,
        /// Print the page as one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Show a run
    Show {
        /// The run
        #[arg(value_parser = run_id)]
        run: RunId,
        /// Print the whole snapshot as one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Follow a run from its beginning, or from after an event
    Tail {
        /// The run
        #[arg(value_parser = run_id)]
        run: RunId,
        /// Only events after this one
        #[arg(long, value_name = "SEQ", default_value_t = 0)]
        after: u64,
        /// Print each event as one JSON line
        #[arg(long)]
        json: bool,
    },
    /// Cancel a run
    Cancel {
        /// The run
        #[arg(value_parser = run_id)]
        run: RunId,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Write an ended run to a JSONL file: its snapshot with the spec, then every event
    Export {
        /// The run
        #[arg(value_parser = run_id)]
        run: RunId,
        /// The output file; default: standard output
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Decide a run again from its log, with the recorded responses of model and tools, and report differences
    ///
    /// Nothing is called or changed; with --file no server is needed. Compared are the server's own decisions:
    /// guards, checks of arguments, client tool calls, and how the run ends. Taken as recorded is what the public log
    /// does not show: tools of MCP servers and agents, tokens, costs and times. Exits with 1 when something differs.
    Replay {
        /// The run
        #[arg(value_parser = run_id, required_unless_present = "file", conflicts_with = "file")]
        run: Option<RunId>,
        /// A file of `runs export` instead of a run of the server
        #[arg(long, short, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Tool turns of runs whose spec has no limit: the server's runs.max_tool_turns
        #[arg(long, value_name = "N", default_value_t = 32)]
        max_tool_turns: u32,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

pub(crate) async fn run(runs: Runs, environment: &Environment) -> Result<Exit, Failure> {
    let client = || connect::client(environment);
    match runs {
        Runs::List {
            status,
            model,
            metadata,
            limit,
            cursor,
            json,
        } => {
            let filter = RunFilter {
                status,
                model_id: model,
                metadata: metadata.into_iter().collect(),
                limit: Some(limit),
                cursor,
                ..RunFilter::default()
            };
            list(&client()?, &filter, json).await
        }
        Runs::Show { run, json } => show(&client()?, &run, json).await,
        Runs::Tail { run, after, json } => {
            let client = client()?;
            let mut stream = client.stream_after(&run, after);
            let form = if json { Form::Json } else { Form::Text };
            render::follow(&client, &run, &mut stream, form, OnInterrupt::Detach).await
        }
        Runs::Cancel { run, json } => cancel(&client()?, &run, json).await,
        Runs::Export { run, output } => export(&client()?, &run, output).await,
        Runs::Replay {
            run,
            file,
            max_tool_turns,
            json,
        } => {
            let source = match (run, file) {
                (_, Some(file)) => Source::File(file),
                (Some(run), None) => Source::Run(run),
                (None, None) => {
                    return Err(Failure::new(Exit::Usage, "name a run, or --file FILE"));
                }
            };
            replay::run(source, max_tool_turns, json, environment).await
        }
    }
}

async fn list(client: &Client, filter: &RunFilter, json: bool) -> Result<Exit, Failure> {
    let page = client.runs(filter).await?;
    if json {
        output::json(&page)?;
        return Ok(Exit::Ok);
    }
    let rows: Vec<Vec<String>> = page.runs.iter().map(row).collect();
    output::table(
        &[
            "ID", "STATUS", "MODEL", "CREATED", "TURNS", "TOKENS", "INPUT",
        ],
        &rows,
    )?;
    if let Some(cursor) = page.next_cursor {
        output::note(format!("more: --cursor {cursor}"));
    }
    Ok(Exit::Ok)
}

fn row(run: &RunListItem) -> Vec<String> {
    let dash = || "-".to_owned();
    let input: String = preview(run.input_preview.as_deref().unwrap_or_default())
        .chars()
        .take(48)
        .collect();
    vec![
        run.id.to_string(),
        run.status.to_string(),
        run.model_id.clone().unwrap_or_else(dash),
        run.created_at.chars().take(19).collect(),
        run.turns.map_or_else(dash, |turns| turns.to_string()),
        run.tokens.map_or_else(dash, |tokens| {
            (tokens.input_tokens + tokens.output_tokens).to_string()
        }),
        input,
    ]
}

async fn show(client: &Client, id: &RunId, json: bool) -> Result<Exit, Failure> {
    if json {
        output::line(client.run_json(id).await?.get())?;
        return Ok(Exit::Ok);
    }
    let run = client.run(id).await?;
    output::line(format!("{}  {}", run.id, run.status))?;
    for (name, value) in facts(&run) {
        output::line(format!("  {name:9} {value}"))?;
    }
    if let Some(text) = &run.final_text {
        output::line(format!("\n{text}"))?;
    }
    Ok(Exit::Ok)
}

fn facts(run: &RunSnapshot) -> Vec<(&'static str, String)> {
    let mut facts = vec![("created", run.created_at.clone())];
    let mut put = |name, value: Option<String>| facts.extend(value.map(|value| (name, value)));
    put("started", run.started_at.clone());
    put("completed", run.completed_at.clone());
    put("session", run.session_id.as_ref().map(ToString::to_string));
    put("agent", run.agent_id.as_ref().map(ToString::to_string));
    put(
        "model",
        run.agent_spec
            .model_id
            .clone()
            .filter(|_| run.model.is_none()),
    );
    put(
        "spent",
        run.tokens.map(|tokens| {
            summary(
                &tokens,
                run.turns.unwrap_or(0),
                run.model.as_ref(),
                run.cost_usd,
            )
        }),
    );
    put("error", run.error.clone());
    for (key, value) in &run.metadata {
        put("label", Some(format!("{key}: {value}")));
    }
    facts
}

/// Cancelling an ended run is not an error; the message says that it had ended.
async fn cancel(client: &Client, id: &RunId, json: bool) -> Result<Exit, Failure> {
    let before = client.run(id).await?.status;
    client.cancel_run(id).await?;
    let ended = before.is_terminal();
    if json {
        output::json(&serde_json::json!({ "ok": true, "runId": id, "alreadyEnded": ended }))?;
    } else if ended {
        output::line(format!("{id} had ended before: {before}"))?;
    } else {
        output::line(format!("{id} is asked to stop"))?;
    }
    Ok(Exit::Ok)
}

async fn export(client: &Client, id: &RunId, path: Option<PathBuf>) -> Result<Exit, Failure> {
    let status = client.run(id).await?.status;
    if !status.is_terminal() {
        let message = format!(
            "{id} is {status}; only runs that have ended are exported (runloom runs tail {id})"
        );
        return Err(Failure::new(Exit::Failure, message));
    }
    let head = serde_json::json!({ "type": "runloom.export", "version": EXPORT_VERSION, "run": client.run_json(id).await? });
    let mut sink: Box<dyn Write> = match &path {
        Some(path) => {
            let file = std::fs::File::create(path)
                .with_context(|| format!("cannot write {}", path.display()))?;
            Box::new(std::io::BufWriter::new(file))
        }
        None => Box::new(std::io::stdout()),
    };
    writeln!(sink, "{head}")?;
    let mut stream = client.stream(id);
    let mut count = 0_u64;
    while let Some(event) = stream.next().await? {
        writeln!(sink, "{}", event.raw.get())?;
        count += 1;
    }
    sink.flush()?;
    if let Some(path) = path {
        output::note(format!("{count} events in {}", path.display()));
    }
    Ok(Exit::Ok)
}

fn run_id(text: &str) -> Result<RunId, String> {
    RunId::parse(text).ok_or_else(|| "a run's id looks like run_…".to_owned())
}

fn status(text: &str) -> Result<RunStatus, String> {
    RunStatus::parse(text).ok_or_else(|| {
        let words: Vec<&str> = RunStatus::ALL
            .iter()
            .map(|status| status.as_str())
            .collect();
        format!("must be one of {}", words.join(", "))
    })
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once(':')
        .ok_or_else(|| "must be KEY:VALUE".to_owned())?;
    Ok((key.to_owned(), value.to_owned()))
}
