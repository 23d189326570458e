//! What a schema and a check may cost. Schemas come from strangers: each number here bounds one way to spend our time
//! or memory, and all are far above what schemas written by people need.

/// Serialised bytes of one schema.
pub const MAX_BYTES: usize = 256 * 1024;
/// JSON values in one schema, keys not counted.
pub const MAX_VALUES: usize = 20_000;
/// JSON nesting of one schema; deeper ones would exhaust the stack of the thread that builds.
pub const MAX_DEPTH: usize = 96;
/// Regular expressions in one schema.
pub const MAX_PATTERNS: usize = 200;
/// Characters of all regular expressions of one schema.
pub const MAX_PATTERN_BYTES: usize = 16 * 1024;
/// Subschemas that apply to one and the same value, after following every `$ref`, each counted as often as it applies.
pub const MAX_EXPANDED: u64 = 10_000;
/// How deep such subschemas may stand inside one another, after following every `$ref`.
pub const MAX_EXPANDED_DEPTH: u32 = 100;

/// Compiled size of one regular expression, in bytes.
pub(super) const PATTERN_BYTES: usize = 2 * 1024 * 1024;
/// Compiled size of all regular expressions of one schema, in bytes.
pub(super) const ALL_PATTERNS_BYTES: usize = 16 * 1024 * 1024;
/// Steps back that a look-around pattern may take on one string before the value counts as not matching.
pub(super) const BACKTRACKS: usize = 10_000;

/// Visits (a subschema meets a value) of one check: a constant …
pub(super) const VISITS: u64 = 500_000;
/// … plus this for each value of the instance, so that long but simple lists pass.
pub(super) const VISITS_PER_VALUE: u64 = 16;
/// Maximum visits for which all errors are collected; collecting costs the most.
pub(super) const VISITS_ALL_ERRORS: u64 = 20_000;
/// Maximum visits for which the first error is located; beyond it only validity is checked.
pub(super) const VISITS_FIRST_ERROR: u64 = 100_000;
/// Subschemas that may stand on the stack during a check.
pub(super) const CHECK_DEPTH: u32 = 600;

/// Violations that are told.
pub(super) const VIOLATIONS: usize = 5;
/// Characters of one told text.
pub(super) const MESSAGE_CHARS: usize = 300;

/// Validators in the cache.
pub(super) const CACHED: usize = 1_024;
/// Estimated bytes of the validators in the cache.
pub(super) const CACHED_BYTES: usize = 128 * 1024 * 1024;
