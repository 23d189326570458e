//! Metadata of a session or agent merged with that of a run.

use std::collections::BTreeMap;

use runloom_protocol::limits;
use runloom_protocol::spec::Metadata;

use crate::entry_point::VIA;
use crate::error::{Error, Result};

/// Checks the limits of merged metadata: each side was within them, but the union may not be.
pub(crate) fn check_merged(metadata: &Metadata) -> Result<()> {
    let given = metadata.iter().filter(|(name, _)| *name != VIA);
    // The entry point's label is added by this server and does not count.
    let given: BTreeMap<&String, &String> = given.collect();
    let bytes = serde_json::to_vec(&given).map_err(Error::internal)?.len();
    if given.len() > limits::METADATA_MAX || bytes > limits::METADATA_MAX_BYTES {
        let message = format!(
            "merged with the session's metadata there are {} entries in {bytes} bytes; at most {} entries in {} bytes are allowed",
            given.len(),
            limits::METADATA_MAX,
            limits::METADATA_MAX_BYTES
        );
        return Err(Error::invalid("metadata", message));
    }
    Ok(())
}
