//! The model: reads the script in the prompt, and says its next turn word by word.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use axum::response::Response;
use axum::response::sse::{Event, Sse};
use futures_util::{Stream, StreamExt, stream};
use serde_json::{Value, json};

use crate::peers::Peers;
use crate::script::{Script, Turn};

/// `POST /model/{asker}/chat/completions`: the path says which process asks.
pub(crate) async fn complete(
    State(peers): State<Peers>,
    Path(asker): Path<String>,
    Json(body): Json<Value>,
) -> Response {
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    for complaint in unanswered(&messages) {
        peers.complain(complaint);
    }
    let Some((script, turn)) = position(&messages) else {
        peers.complain(format!("a conversation without a script: {body}"));
        return Json(json!({"error": {"message": "no script"}})).into_response();
    };
    let said = script
        .turns
        .get(turn)
        .cloned()
        .unwrap_or_else(|| Turn::saying(3, 0));
    if said.deadly {
        peers.died(&asker);
        // It dies while it waits for an answer.
        std::future::pending::<()>().await;
    }
    Sse::new(play(script, turn, said)).into_response()
}

/// The script, and how many of its turns have been said.
fn position(messages: &[Value]) -> Option<(Script, usize)> {
    let at = messages
        .iter()
        .rposition(|message| message["role"] == "user")?;
    let script = serde_json::from_str(text(&messages[at]["content"])?).ok()?;
    let said = messages[at..]
        .iter()
        .filter(|message| message["role"] == "assistant");
    Some((script, said.count()))
}

/// Plain, or the first of several parts.
fn text(content: &Value) -> Option<&str> {
    content.as_str().or_else(|| content[0]["text"].as_str())
}

/// Calls without a result right behind them, which real providers refuse.
fn unanswered(messages: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let results = messages[at + 1..]
                .iter()
                .take_while(|message| message["role"] == "tool");
            let answers = results
                .filter(|result| result["tool_call_id"] == call["id"])
                .count();
            if answers != 1 {
                found.push(format!("the model was given {answers} results of {call}"));
            }
        }
    }
    found
}

fn play(
    script: Script,
    turn: usize,
    said: Turn,
) -> impl Stream<Item = Result<Event, Infallible>> + Send {
    let gap = Duration::from_millis(said.gap);
    let chunks = chunks(&script, turn, &said);
    stream::iter(chunks).then(move |chunk| async move {
        if !gap.is_zero() {
            tokio::time::sleep(gap).await;
        }
        Ok(Event::default().data(chunk))
    })
}

fn chunks(script: &Script, turn: usize, said: &Turn) -> Vec<String> {
    let choice = |delta: Value, finish: Value| {
        json!({"id": "c", "object": "chat.completion.chunk", "model": "scripted",
               "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        .to_string()
    };
    let mut chunks: Vec<String> = (0..said.words)
        .map(|word| {
            let text = format!("{}-{turn}-{word} ", script.id);
            choice(json!({"content": text}), Value::Null)
        })
        .collect();
    for (index, name) in said.calls.iter().enumerate() {
        let arguments = json!({"token": format!("{}/{turn}/{index}", script.id)}).to_string();
        let call = json!({"index": index, "id": script.call_id(turn, index), "type": "function",
                          "function": {"name": name, "arguments": arguments}});
        chunks.push(choice(json!({"tool_calls": [call]}), Value::Null));
    }
    let finish = if said.calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    };
    chunks.push(choice(json!({}), finish.into()));
    let usage = json!({"prompt_tokens": 10, "completion_tokens": said.words + 1, "total_tokens": said.words + 11});
    chunks.push(
        json!({"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": usage})
            .to_string(),
    );
    chunks.push("[DONE]".to_owned());
    chunks
}
