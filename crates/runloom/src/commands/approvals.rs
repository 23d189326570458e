//! `runloom approvals …`: tool calls that wait for a person.

use anyhow::Context;
use clap::{Args, Subcommand};
use runloom_client::protocol::approval::{ApprovalStatus, ApprovalVerdict, Ruling};
use runloom_client::protocol::id::{ApprovalId, RunId};
use runloom_client::protocol::resource::Approval;
use runloom_client::{ApprovalDecision, ApprovalFilter, Client};
use serde_json::Value;

use crate::config::Environment;
use crate::exit::{Exit, Failure};
use crate::render::preview;
use crate::{connect, output};

/// `runloom approvals …`.
#[derive(Debug, Subcommand)]
pub(crate) enum Approvals {
    /// List approvals, newest first
    List {
        /// Only approvals in this state: pending, approved, denied, expired, cancelled
        #[arg(long, value_parser = status)]
        status: Option<ApprovalStatus>,
        /// Only approvals of this run
        #[arg(long, value_parser = run_id)]
        run: Option<RunId>,
        /// Only approvals of this root and the runs below it
        #[arg(long, value_parser = run_id)]
        root: Option<RunId>,
        /// Maximum number
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
        limit: u32,
        /// Where the next page begins, as the page before said
        #[arg(long)]
        cursor: Option<String>,
        /// The page as one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Show an approval
    Show {
        /// Which approval
        #[arg(value_parser = approval_id)]
        approval: ApprovalId,
        /// As one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Approve a call
    Approve {
        #[command(flatten)]
        decision: Decision,
        /// Execute the call with these arguments instead: a JSON object
        #[arg(long, value_name = "JSON", value_parser = object)]
        input: Option<Value>,
    },
    /// Deny a call
    Deny {
        #[command(flatten)]
        decision: Decision,
    },
}

/// What both decisions take.
#[derive(Debug, Args)]
pub(crate) struct Decision {
    /// Which approval
    #[arg(value_parser = approval_id)]
    approval: ApprovalId,
    /// Why; the model reads it when the call is denied or changed
    #[arg(long)]
    note: Option<String>,
    /// The approval as one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(command: Approvals, environment: &Environment) -> Result<Exit, Failure> {
    let client = connect::client(environment)?;
    match command {
        Approvals::List {
            status,
            run,
            root,
            limit,
            cursor,
            json,
        } => {
            let filter = ApprovalFilter {
                status,
                run,
                root,
                limit: Some(limit),
                cursor,
                include_total: false,
            };
            list(&client, &filter, json).await
        }
        Approvals::Show { approval, json } => {
            let approval = client.approval(&approval).await?;
            show(&approval, json)
        }
        Approvals::Approve { decision, input } => {
            decide(&client, decision, ApprovalVerdict::Approve, input).await
        }
        Approvals::Deny { decision } => {
            decide(&client, decision, ApprovalVerdict::Deny, None).await
        }
    }
}

async fn list(client: &Client, filter: &ApprovalFilter, json: bool) -> Result<Exit, Failure> {
    let page = client.approvals(filter).await?;
    if json {
        output::json(&page)?;
        return Ok(Exit::Ok);
    }
    let rows: Vec<Vec<String>> = page.approvals.iter().map(row).collect();
    output::table(
        &["ID", "STATUS", "TOOL", "RUN", "EXPIRES", "ARGUMENTS"],
        &rows,
    )?;
    if let Some(cursor) = page.next_cursor {
        output::note(format!("more: --cursor {cursor}"));
    }
    Ok(Exit::Ok)
}

fn row(approval: &Approval) -> Vec<String> {
    let input: String = preview(&approval.input.to_string())
        .chars()
        .take(60)
        .collect();
    vec![
        approval.approval_id.to_string(),
        approval.status.as_str().to_owned(),
        approval.name.clone(),
        approval.run_id.to_string(),
        approval.expires_at.chars().take(19).collect(),
        input,
    ]
}

fn show(approval: &Approval, json: bool) -> Result<Exit, Failure> {
    if json {
        output::json(approval)?;
        return Ok(Exit::Ok);
    }
    let status = approval.status.as_str();
    output::line(format!("{}  {status}", approval.approval_id))?;
    for (name, value) in facts(approval) {
        output::line(format!("  {name:9} {value}"))?;
    }
    let input =
        serde_json::to_string_pretty(&approval.input).context("cannot show the arguments")?;
    output::line(format!("\n{} {input}", approval.name))?;
    if let Some(edited) = &approval.edited_input {
        let edited = serde_json::to_string_pretty(edited).context("cannot show the arguments")?;
        output::line(format!("\nexecuted with {edited}"))?;
    }
    Ok(Exit::Ok)
}

fn facts(approval: &Approval) -> Vec<(&'static str, String)> {
    let mut facts = vec![("run", approval.run_id.to_string())];
    let mut put = |name, value: Option<String>| facts.extend(value.map(|value| (name, value)));
    put("agent", approval.agent_id.as_ref().map(ToString::to_string));
    put(
        "session",
        approval.session_id.as_ref().map(ToString::to_string),
    );
    put("effect", Some(approval.effect.as_str().to_owned()));
    put("rule", approval.rule.clone());
    put("reason", approval.reason.clone());
    put("created", Some(approval.created_at.clone()));
    put("expires", Some(approval.expires_at.clone()));
    put("decided", approval.decided_at.clone());
    put(
        "by",
        approval
            .by
            .as_ref()
            .map(|by| by.id.clone().unwrap_or_else(|| by.kind.as_str().to_owned())),
    );
    put("note", approval.note.clone());
    facts
}

async fn decide(
    client: &Client,
    decision: Decision,
    verdict: ApprovalVerdict,
    input: Option<Value>,
) -> Result<Exit, Failure> {
    let Decision {
        approval,
        note,
        json,
    } = decision;
    let run = client.approval(&approval).await?.run_id;
    let decision = ApprovalDecision {
        approval_id: approval,
        ruling: Ruling {
            decision: verdict,
            input,
            sub_decisions: Vec::new(),
            note,
        },
    };
    let decided = client.decide(&run, &decision).await?;
    if json {
        output::json(&decided)?;
    } else {
        let status = decided.status.as_str();
        output::line(format!(
            "{} {status}: {}",
            decided.approval_id, decided.name
        ))?;
    }
    Ok(Exit::Ok)
}

fn approval_id(text: &str) -> Result<ApprovalId, String> {
    ApprovalId::parse(text).ok_or_else(|| "an approval's id looks like apr_…".to_owned())
}

fn run_id(text: &str) -> Result<RunId, String> {
    RunId::parse(text).ok_or_else(|| "a run's id looks like run_…".to_owned())
}

fn status(text: &str) -> Result<ApprovalStatus, String> {
    ApprovalStatus::parse(text).ok_or_else(|| {
        let words: Vec<&str> = ApprovalStatus::ALL
            .iter()
            .map(|status| status.as_str())
            .collect();
        format!("must be one of {}", words.join(", "))
    })
}

fn object(text: &str) -> Result<Value, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if value.is_object() {
        Ok(value)
    } else {
        Err("must be a JSON object".to_owned())
    }
}
