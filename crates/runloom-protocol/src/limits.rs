//! Every number of the contract, with its unit.

/// Default of `loopDetection.consecutiveThreshold`.
pub const LOOP_CONSECUTIVE_DEFAULT: u32 = 3;
/// Default of `loopDetection.hardCutoffThreshold`.
pub const LOOP_HARD_DEFAULT: u32 = 6;
/// Default of `budgets.maxToolTurns`.
pub const MAX_TOOL_TURNS_DEFAULT: u32 = 32;
