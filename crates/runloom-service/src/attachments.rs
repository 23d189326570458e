//! Attachments of a request: fetched unless the provider fetches them, read, and refused if the model cannot take them.
//! All of it happens before the run is created, so that errors reach the client and any process can continue the run.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use runloom_protocol::attachment::{
    Attachment, AttachmentKind, FileData, IMAGES, PDF, is_attachment_type, sniffed,
};
use runloom_protocol::limits::ATTACHMENTS_MAX_BYTES;
use runloom_protocol::spec::PromptMessage;
use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::files;
use crate::spec_resolver::SpecResolver;
use runloom_engine::catalog::CatalogModel;
use runloom_ports::store::WorkspaceNo;

/// Time to fetch all files of a request, shorter than the request timeout.
const FETCH_TIMEOUT: Duration = Duration::from_secs(30);

impl SpecResolver {
    /// The messages with their files as stored. Every one of these models can take them.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the path of a file that cannot be fetched, read or given to the model;
    /// [`Error::Unavailable`] when too many files are being fetched.
    pub(crate) async fn load_attachments(
        &self,
        workspace: WorkspaceNo,
        models: &[&CatalogModel],
        mut messages: Vec<PromptMessage>,
    ) -> Result<Vec<PromptMessage>> {
        for (index, message) in messages.iter_mut().enumerate() {
            if message.attachments.is_empty() {
                continue;
            }
            let at = format!("messages[{index}].attachments");
            let fetched = self
                .fetch_all(
                    workspace,
                    models,
                    &at,
                    std::mem::take(&mut message.attachments),
                )
                .await?;
            let read = files::read(fetched, ATTACHMENTS_MAX_BYTES).await;
            message.attachments = read.map_err(|(place, why)| {
                Error::invalid(format!("{at}[{place}]"), format!("the file {why}"))
            })?;
        }
        Ok(messages)
    }

    async fn fetch_all(
        &self,
        workspace: WorkspaceNo,
        models: &[&CatalogModel],
        at: &str,
        attached: Vec<Attachment>,
    ) -> Result<Vec<Attachment>> {
        let carried: u64 = attached.iter().filter_map(|file| file.size).sum();
        let carried = usize::try_from(carried).unwrap_or(usize::MAX);
        let mut room = ATTACHMENTS_MAX_BYTES.saturating_sub(carried);
        let mut permit = None;
        let mut taken = Vec::with_capacity(attached.len());
        for (index, mut file) in attached.into_iter().enumerate() {
            let path = format!("{at}[{index}]");
            if needs_fetching(models, &path, &mut file)? {
                if permit.is_none() {
                    let mine = self.fetches.acquire(workspace).await?;
                    permit = Some((mine, Instant::now() + FETCH_TIMEOUT));
                }
                let deadline = permit.as_ref().map_or_else(Instant::now, |(_, by)| *by);
                let within = deadline.saturating_duration_since(Instant::now());
                let bytes = self.fetch(&path, &mut file, room, within).await?;
                room = room.saturating_sub(bytes);
                refuse_untaken(models, &path, &file)?;
            } else if let Some(url) = &file.url {
                // The provider fetches it, but the outbound policy holds as well.
                let fine = self.tools.check_address(url);
                fine.map_err(|why| Error::invalid(format!("{path}.url"), why))?;
            }
            taken.push(file);
        }
        Ok(taken)
    }

    /// Fetches one file and returns its size.
    async fn fetch(
        &self,
        path: &str,
        file: &mut Attachment,
        room: usize,
        within: Duration,
    ) -> Result<usize> {
        let url = file.url.as_deref().unwrap_or_default();
        let fetched = self.tools.fetch(url, room, within).await;
        let fetched = fetched.map_err(|why| {
            Error::invalid(format!("{path}.url"), format!("cannot be fetched: {why}"))
        })?;
        if fetched.bytes.is_empty() {
            let message = "there is nothing at this address: the file is empty";
            return Err(Error::invalid(format!("{path}.url"), message));
        }
        // The type that the client gave comes first, then the server's, then that of the name.
        let said = fetched.mime_type.filter(|kind| is_attachment_type(kind));
        let kind = file
            .mime_type
            .clone()
            .or(said)
            .or_else(|| file.media_type());
        let Some(kind) = kind else {
            let message = "neither the address nor its server tells what the file is; give one of the accepted types";
            return Err(Error::invalid(format!("{path}.mimeType"), message));
        };
        // Servers often give a wrong image type.
        let shown = sniffed(&fetched.bytes)
            .filter(|_| file.mime_type.is_none() && (kind == PDF || IMAGES.contains(&&*kind)));
        file.mime_type = Some(shown.map_or(kind, str::to_owned));
        file.size = Some(fetched.bytes.len() as u64);
        file.data = Some(FileData(STANDARD.encode(&fetched.bytes).into()));
        Ok(fetched.bytes.len())
    }
}

/// Whether the server has to fetch the file. A file that a model cannot take is refused before it is fetched.
fn needs_fetching(models: &[&CatalogModel], path: &str, file: &mut Attachment) -> Result<bool> {
    let is_address = file.kind == AttachmentKind::InputFileUrl;
    let Some(kind) = file.media_type() else {
        return Ok(is_address);
    };
    let fetches = |model: &&CatalogModel| model.model.capabilities().files.fetches(&kind);
    if is_address && models.iter().all(fetches) {
        file.mime_type = Some(kind);
        return Ok(false);
    }
    refuse_untaken(models, path, file)?;
    Ok(is_address)
}

fn refuse_untaken(models: &[&CatalogModel], path: &str, file: &Attachment) -> Result<()> {
    let kind = file.media_type().unwrap_or_default();
    let takes = |model: &CatalogModel| {
        files::is_read(&kind) || model.model.capabilities().files.takes(&kind)
    };
    let Some(model) = models.iter().find(|model| !takes(model)) else {
        return Ok(());
    };
    let known = match model.model.capabilities().files.inline {
        [] => "it reads text, and Word documents as text".to_owned(),
        known => format!(
            "it takes {}, and reads text and Word documents",
            known.join(", ")
        ),
    };
    let message = format!("the model {} cannot be given {kind}; {known}", model.id);
    Err(Error::invalid(format!("{path}.mimeType"), message))
}
