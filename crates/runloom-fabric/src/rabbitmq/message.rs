//! What a message says: which run, and whose.

use runloom_ports::queue::Job;
use runloom_ports::store::{RunNo, WorkspaceNo};
use serde::{Deserialize, Serialize};

/// The body. Unknown fields are allowed, so that an older process understands a newer one.
#[derive(Debug, Serialize, Deserialize)]
struct Body {
    run: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workspace: Option<i64>,
}

/// The bytes for a job.
pub(super) fn encode(job: Job) -> Vec<u8> {
    let body = Body {
        run: job.run.0,
        workspace: job.workspace.map(|workspace| workspace.0),
    };
    // Two numbers always become JSON.
    serde_json::to_vec(&body).unwrap_or_default()
}

/// The job in a message; `None` when there is none in it.
pub(super) fn decode(bytes: &[u8]) -> Option<Job> {
    let body: Body = serde_json::from_slice(bytes).ok()?;
    Some(Job {
        run: RunNo(body.run),
        workspace: body.workspace.map(WorkspaceNo),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_survives_the_way() {
        for workspace in [None, Some(WorkspaceNo(3))] {
            let job = Job {
                run: RunNo(i64::MAX),
                workspace,
            };
            assert_eq!(decode(&encode(job)), Some(job));
        }
    }

    #[test]
    fn what_a_newer_version_adds_is_ignored_and_what_is_no_job_is_refused() {
        assert!(decode(br#"{"run":1,"priority":2}"#).is_some());
        for bytes in [&b"{}"[..], b"", b"7", b"{\"run\":\"1\"}"] {
            assert_eq!(decode(bytes), None);
        }
    }
}
