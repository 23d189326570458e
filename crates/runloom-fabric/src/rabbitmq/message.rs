//! Message format: the run and its workspace, as JSON.

use runloom_ports::queue::Job;
use runloom_ports::store::{RunNo, WorkspaceNo};
use serde::{Deserialize, Serialize};

/// The message body. Unknown fields are ignored, so that processes of different versions can share a queue.
#[derive(Debug, Serialize, Deserialize)]
struct JobMessage {
    run: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workspace: Option<i64>,
}

/// Encodes a job.
pub(super) fn encode(job: Job) -> Vec<u8> {
    let message = JobMessage {
        run: job.run.0,
        workspace: job.workspace.map(|workspace| workspace.0),
    };
    // Serializing two integers cannot fail.
    serde_json::to_vec(&message).unwrap_or_default()
}

/// Decodes a job; `None` when the bytes are not one.
pub(super) fn decode(bytes: &[u8]) -> Option<Job> {
    let message: JobMessage = serde_json::from_slice(bytes).ok()?;
    Some(Job {
        run: RunNo(message.run),
        workspace: message.workspace.map(WorkspaceNo),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_round_trip() {
        for workspace in [None, Some(WorkspaceNo(3))] {
            let job = Job {
                run: RunNo(i64::MAX),
                workspace,
            };
            assert_eq!(decode(&encode(job)), Some(job));
        }
    }

    #[test]
    fn ignores_unknown_fields_and_rejects_other_messages() {
        assert!(decode(br#"{"run":1,"priority":2}"#).is_some());
        for bytes in [&b"{}"[..], b"", b"7", b"{\"run\":\"1\"}"] {
            assert_eq!(decode(bytes), None);
        }
    }
}
