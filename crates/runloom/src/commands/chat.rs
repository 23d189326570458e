//! `runloom chat`: a session on the terminal.

use std::io::{BufRead, IsTerminal};

use clap::Args;
use runloom_client::MessageRequest;
use runloom_client::protocol::id::SessionId;
use tokio::sync::mpsc;

use crate::commands::run::{Agent, session_id};
use crate::config::Environment;
use crate::exit::{Exit, Failure};
use crate::render::{self, Form, OnInterrupt};
use crate::shutdown::Signals;
use crate::{connect, output};

/// `runloom chat`.
#[derive(Debug, Args)]
#[command(after_help = "\
Type a line and press Enter. /exit or Ctrl-D leaves, Ctrl-C cancels the answer that is being written.
The session is kept: runloom chat --session ses_… goes on with it.")]
pub(crate) struct Chat {
    #[command(flatten)]
    agent: Agent,
    /// Continue this session
    #[arg(long, value_name = "ID", value_parser = session_id)]
    session: Option<SessionId>,
}

pub(crate) async fn run(chat: Chat, environment: &Environment) -> Result<Exit, Failure> {
    let client = connect::client(environment)?;
    let session = match chat.session {
        Some(session) => {
            let known = client.session(&session).await?;
            output::note(format!(
                "{session}, {} messages so far",
                known.messages.len()
            ));
            session
        }
        None => {
            let spec = chat.agent.spec(&client).await?;
            client.create_session(&spec).await?.session_id
        }
    };
    output::note("type a message; /exit leaves, Ctrl-C cancels an answer");
    let mut lines = read_lines();
    let mut signals = Signals::interrupt();
    loop {
        if std::io::stdin().is_terminal() {
            output::faint("> ");
        }
        let line = tokio::select! {
            line = lines.recv() => line,
            () = signals.next() => None,
        };
        let Some(line) = line else { break };
        match line.trim() {
            "" => continue,
            "/exit" | "/quit" => break,
            text => {
                let accepted = client
                    .send_message(&session, &MessageRequest::new(text))
                    .await?;
                let mut stream = client.stream(&accepted.run_id);
                render::follow(
                    &client,
                    &accepted.run_id,
                    &mut stream,
                    Form::Text,
                    OnInterrupt::CancelRun,
                )
                .await?;
                // A Ctrl-C that cancels the answer does not end the session.
                signals = Signals::interrupt();
            }
        }
    }
    output::note(format!("\nto go on: runloom chat --session {session}"));
    Ok(Exit::Ok)
}

/// Reading standard input blocks, so a thread does it; it ends with the process.
fn read_lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    receiver
}
