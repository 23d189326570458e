//! Files that tools returned, until the model gets them.

use std::collections::HashMap;
use std::sync::Arc;

use runloom_protocol::attachment::{Attachment, FileData};

use super::state::Call;
use runloom_ports::file::{File, FileContent};
use runloom_ports::model::Message;

/// Maximum bytes of files of one run, as stored. They are held in memory and sent with every later call of the run.
const MAX_BYTES: usize = 20 * 1024 * 1024;

/// The files of the tool calls of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct PendingFiles {
    bytes: usize,
    /// Files of calls whose turn is not complete.
    waiting: HashMap<String, Vec<Attachment>>,
}

impl PendingFiles {
    /// The files as they are recorded: files over the limit lose their content.
    pub(crate) fn within_bounds(&self, files: Vec<Attachment>) -> Vec<Attachment> {
        let mut bytes = self.bytes;
        let kept = files.into_iter().map(|file| {
            let size = kept_bytes(&file);
            if bytes.saturating_add(size) > MAX_BYTES {
                return file.info();
            }
            bytes += size;
            file
        });
        kept.collect()
    }

    pub(super) fn put(&mut self, call: String, files: Vec<Attachment>) {
        self.bytes += files.iter().map(kept_bytes).sum::<usize>();
        self.waiting.insert(call, files);
    }

    /// The message with the files of a call.
    pub(super) fn take(&mut self, call: &Call) -> Option<Message> {
        let files = self.waiting.remove(&call.id)?;
        let shown: Arc<[File]> = files.iter().map(file).collect();
        (!shown.is_empty()).then(|| Message::UserFiles {
            text: format!("Files that the tool {} returned:", call.name).into(),
            files: shown,
        })
    }
}

fn file(kept: &Attachment) -> File {
    File::of(kept).unwrap_or_else(|| File {
        name: kept.name().into(),
        mime_type: kept.media_type().unwrap_or_default().into(),
        size: kept.size,
        content: FileContent::Text("[left out: this run has had too many bytes of files]".into()),
    })
}

fn kept_bytes(file: &Attachment) -> usize {
    let of = |data: &Option<FileData>| data.as_ref().map_or(0, |data| data.0.len());
    of(&file.data) + of(&file.text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::state::CallState;
    use super::*;

    fn file(bytes: usize) -> Attachment {
        Attachment::inline("a.png", "image/png", "A".repeat(bytes))
    }

    #[test]
    fn files_over_the_limit_lose_their_content() {
        let mut pending = PendingFiles::default();
        let kept = pending.within_bounds(vec![file(MAX_BYTES - 1), file(2), file(1)]);
        let have: Vec<bool> = kept.iter().map(|file| file.data.is_some()).collect();
        assert_eq!(have, [true, false, true]);
        pending.put("tu_1".to_owned(), kept);
        let more = pending.within_bounds(vec![file(1)]);
        assert_eq!(more[0].data, None);
        let call = Call {
            id: "tu_1".to_owned(),
            provider_id: String::new(),
            name: "draw".to_owned(),
            input: json!({}),
            state: CallState::New,
            edit: None,
        };
        let Some(Message::UserFiles { files, .. }) = pending.take(&call) else {
            panic!("nothing is shown");
        };
        assert!(files[1].in_words().contains("left out"));
        assert_eq!(pending.take(&call), None);
    }
}
