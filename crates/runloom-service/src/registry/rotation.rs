//! The master key changes: everything that is sealed is sealed anew.

use runloom_protocol::admin::Rotation;

use super::{RegistryService, sealing};
use crate::auth::KeyRing;
use crate::error::{Error, Result};
use runloom_engine::planner::StoredRun;
use runloom_ports::store::{DocumentKind, Resealed, Sealed};

/// Texts that are sealed anew in one go.
const PAGE: usize = 100;

impl RegistryService {
    /// Seals everything with the current master key: documents and their versions, specs of sessions that go on and
    /// of runs that live, and the key that API keys are hashed with. May be repeated.
    ///
    /// # Errors
    /// When the store fails. What was sealed anew stays so; both keys open until the end.
    pub async fn rotate(&self) -> Result<Rotation> {
        KeyRing::reseal(&*self.store as _, &*self.sealer).await?;
        let mut rotation = Rotation::default();
        let mut after = None;
        loop {
            let page = self.store.sealed(after, PAGE).await?;
            after = match page.last() {
                None => return Ok(rotation),
                Some(last) => Some(last.key.clone()),
            };
            let mut texts = Vec::with_capacity(page.len());
            for sealed in page {
                match self.again(&sealed) {
                    Ok(after) => texts.push(Resealed {
                        key: sealed.key,
                        before: sealed.text,
                        after,
                    }),
                    Err(_) => rotation.unreadable += 1,
                }
            }
            let wanted = texts.len();
            let replaced = self.store.reseal(texts).await?;
            rotation.resealed += replaced;
            rotation.skipped += wanted - replaced;
        }
    }

    fn again(&self, sealed: &Sealed) -> Result<String> {
        let Some((workspace, kind, slug)) = &sealed.owner else {
            let stored: StoredRun = serde_json::from_str(&sealed.text).map_err(Error::internal)?;
            let again = stored.opened(&*self.sealer)?.sealed(&*self.sealer)?;
            return serde_json::to_string(&again).map_err(Error::internal);
        };
        let place = sealing::place(workspace, *kind, slug);
        let mut body = serde_json::from_str(&sealed.text).map_err(Error::internal)?;
        if *kind == DocumentKind::Secret {
            let body: &mut serde_json::Value = &mut body;
            let clear = self
                .sealer
                .open(&place, body["value"].as_str().unwrap_or_default())
                .map_err(Error::internal)?;
            body["value"] = self
                .sealer
                .seal(&place, &clear)
                .map_err(Error::internal)?
                .into();
        } else {
            let clear = sealing::open(&*self.sealer, &place, body)?;
            body = sealing::seal(&*self.sealer, &place, clear)?;
        }
        Ok(body.to_string())
    }
}
