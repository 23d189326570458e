//! Compiled schemas by the hash of their bytes, the least recently used leaving first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use crate::error::{SchemaError, SchemaErrorKind};
use crate::limits::{CACHED, CACHED_BYTES};
use crate::validator::Validator;
use crate::{build, measure};

/// How long a caller waits for a build.
const BUILD_TIMEOUT: Duration = Duration::from_secs(5);
/// Builds at a time off the async threads; a slow one keeps its place after its caller has left.
const BUILDERS: usize = 2;

/// Compiles schemas and remembers them. Failures are not remembered: they are found again quickly.
#[derive(Debug)]
pub struct SchemaCache {
    entries: Mutex<Entries>,
    builders: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Entries {
    by_hash: HashMap<[u8; 32], Entry>,
    bytes: usize,
    clock: u64,
}

#[derive(Debug)]
struct Entry {
    validator: Validator,
    bytes: usize,
    used: u64,
}

impl Default for SchemaCache {
    fn default() -> Self {
        Self::new()
    }
}

impl SchemaCache {
    /// An empty cache.
    #[must_use]
    pub fn new() -> Self {
        Self {
            entries: Mutex::default(),
            builders: Arc::new(Semaphore::new(BUILDERS)),
        }
    }

    /// The validator of a schema, built when it is not known. Takes milliseconds for a large one, so async code that
    /// has not met the schema before uses [`compile_off_thread`].
    ///
    /// # Errors
    /// When the schema is not one, refers to something outside itself or exceeds a cap of [`super::limits`].
    pub fn compile(&self, schema: &Value) -> Result<Validator, SchemaError> {
        let key = Key::of(schema)?;
        match self.get(&key) {
            Some(validator) => Ok(validator),
            None => self.build(&key, schema),
        }
    }

    /// Whether [`Self::compile`] would answer at once.
    #[must_use]
    pub fn knows(&self, schema: &Value) -> bool {
        // What is no schema is refused at once as well.
        Key::of(schema).map_or(true, |key| self.get(&key).is_some())
    }

    /// How many validators are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries().by_hash.len()
    }

    /// Whether nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn build(&self, key: &Key, schema: &Value) -> Result<Validator, SchemaError> {
        let validator = build::build(schema)?;
        self.entries().insert(key, &validator);
        Ok(validator)
    }

    fn get(&self, key: &Key) -> Option<Validator> {
        let mut entries = self.entries();
        entries.clock += 1;
        let clock = entries.clock;
        let entry = entries.by_hash.get_mut(&key.hash)?;
        entry.used = clock;
        Some(entry.validator.clone())
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// [`SchemaCache::compile`] for async code: known schemas are answered at once, others are built on a blocking thread.
///
/// # Errors
/// As `compile`, and [`SchemaErrorKind::Busy`] when the build is not ready in time.
pub async fn compile_off_thread(
    cache: Arc<SchemaCache>,
    schema: Arc<Value>,
) -> Result<Validator, SchemaError> {
    let key = Key::of(&schema)?;
    if let Some(validator) = cache.get(&key) {
        return Ok(validator);
    }
    let busy = |message: &str| SchemaError::new(SchemaErrorKind::Busy, "", message);
    let build = async {
        let permit = Arc::clone(&cache.builders).acquire_owned().await;
        let built = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            cache.build(&key, &schema)
        });
        built.await
    };
    match tokio::time::timeout(BUILD_TIMEOUT, build).await {
        Ok(Ok(built)) => built,
        Ok(Err(_)) => Err(busy("the schema could not be built; try again")),
        Err(_) => Err(busy(
            "the schema was not built in time; make it simpler or try again",
        )),
    }
}

struct Key {
    hash: [u8; 32],
    bytes: usize,
}

impl Key {
    fn of(schema: &Value) -> Result<Self, SchemaError> {
        measure::check_shape(schema)?;
        let bytes = measure::bytes(schema)?;
        Ok(Self {
            hash: Sha256::digest(&bytes).into(),
            bytes: bytes.len(),
        })
    }
}

impl Entries {
    fn insert(&mut self, key: &Key, validator: &Validator) {
        self.clock += 1;
        let entry = Entry {
            validator: validator.clone(),
            bytes: validator.estimated_bytes(key.bytes),
            used: self.clock,
        };
        self.bytes += entry.bytes;
        if let Some(old) = self.by_hash.insert(key.hash, entry) {
            self.bytes -= old.bytes;
        }
        while self.by_hash.len() > CACHED || self.bytes > CACHED_BYTES {
            let oldest = self.by_hash.iter().min_by_key(|(_, entry)| entry.used);
            let Some(hash) = oldest.map(|(hash, _)| *hash) else {
                break;
            };
            if let Some(old) = self.by_hash.remove(&hash) {
                self.bytes -= old.bytes;
            }
        }
    }
}
