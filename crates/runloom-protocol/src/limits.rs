//! Every number of the contract, with its unit.
//!
//! `…_CHARS` counts Unicode scalar values, `…_BYTES` counts bytes of UTF-8 (of compact JSON for objects), everything
//! else counts things. A kilobyte is 1,024 bytes, as the SDKs compute it. Where the protocol names no number, ours is
//! here so that nothing a client sends is unbounded; those constants say "ours".

/// Default of `loopDetection.consecutiveThreshold`.
pub const LOOP_CONSECUTIVE_DEFAULT: u32 = 3;
/// Smallest `loopDetection.consecutiveThreshold`: one turn cannot repeat itself.
pub const LOOP_CONSECUTIVE_MIN: u32 = 2;
/// Default of `loopDetection.hardCutoffThreshold`.
pub const LOOP_HARD_DEFAULT: u32 = 6;
/// Smallest `loopDetection.hardCutoffThreshold`: it must be greater than the smallest soft threshold.
pub const LOOP_HARD_MIN: u32 = 3;
/// Largest value of either threshold.
pub const LOOP_THRESHOLD_MAX: u32 = 100;

/// Default of `compaction.atFraction`.
pub const COMPACTION_FRACTION_DEFAULT: f64 = 0.8;
/// Smallest `compaction.atFraction`.
pub const COMPACTION_FRACTION_MIN: f64 = 0.1;
/// Largest `compaction.atFraction`.
pub const COMPACTION_FRACTION_MAX: f64 = 0.95;
/// Default of `compaction.keepTurns`.
pub const COMPACTION_KEEP_TURNS_DEFAULT: u32 = 4;
/// Largest `compaction.keepTurns`.
pub const COMPACTION_KEEP_TURNS_MAX: u32 = 100;
/// Characters of `compaction.instructions`.
pub const COMPACTION_INSTRUCTIONS_MAX_CHARS: usize = 8_000;

/// Default of `budgets.maxToolTurns`.
pub const MAX_TOOL_TURNS_DEFAULT: u32 = 32;
/// Smallest `budgets.maxToolTurns`.
pub const MAX_TOOL_TURNS_MIN: u32 = 1;
/// Largest `budgets.maxToolTurns`.
pub const MAX_TOOL_TURNS_MAX: u32 = 100;
/// Largest integer in a request (ours): beyond it JSON numbers lose digits in JavaScript, and sums stay far from
/// overflow.
pub const INTEGER_MAX: u64 = (1 << 53) - 1;

/// Levels of nesting of a JSON document from outside: a body, a call's arguments, a tool's schema (ours). It is
/// stored inside others, which are read back by a parser that refuses more than 127.
pub const JSON_DEPTH_MAX: usize = 100;

/// Entries of `toolBudgets`.
pub const TOOL_BUDGETS_MAX: usize = 32;
/// Characters of a key of `toolBudgets`; at least one.
pub const TOOL_BUDGET_NAME_MAX_CHARS: usize = 120;
/// Largest `maxCalls`.
pub const TOOL_BUDGET_CALLS_MAX: u32 = 1000;

/// Entries of `metadata`.
pub const METADATA_MAX: usize = 16;
/// Characters of a key of `metadata`, out of `[A-Za-z0-9._-]`; at least one.
pub const METADATA_KEY_MAX_CHARS: usize = 64;
/// Characters of a value of `metadata`.
pub const METADATA_VALUE_MAX_CHARS: usize = 256;
/// Bytes of the whole `metadata` as compact JSON.
pub const METADATA_MAX_BYTES: usize = 4 * 1024;

/// Entries of `messages`.
pub const MESSAGES_MAX: usize = 200;
/// Characters of one message's text. The protocol names it for `messages`; `prompt` is a message in short form, and
/// `systemPrompt` is what a `system` message would carry, so both have the same limit.
pub const MESSAGE_MAX_CHARS: usize = 200_000;
/// Parts of one message whose content is an array (ours).
pub const MESSAGE_PARTS_MAX: usize = 200;

/// Bytes of the whole `outputSchema` as compact JSON.
pub const OUTPUT_SCHEMA_MAX_BYTES: usize = 32 * 1024;
/// Characters of `outputSchema.name`, out of `[a-zA-Z0-9_-]`; at least one.
pub const OUTPUT_SCHEMA_NAME_MAX_CHARS: usize = 64;

/// Largest numeric `reasoningLevel`.
pub const REASONING_LEVEL_MAX: u8 = 100;

/// Entries of `tools` (ours), and refs of a spec, all levels of delegates together: what the strictest provider takes
/// in one request.
pub const TOOLS_MAX: usize = 128;
/// Levels of delegates in a spec.
pub const DELEGATE_LEVELS_MAX: usize = 8;
/// Largest `maxDepth`.
pub const MAX_DEPTH_MAX: u8 = 8;
/// `maxDepth` when a spec does not say.
pub const MAX_DEPTH_DEFAULT: u8 = 1;
/// Entries of an `mcp_local` ref's `tools`; at least one.
pub const MCP_LOCAL_TOOLS_MAX: usize = 64;
/// Characters of a model-facing name, out of `[a-zA-Z0-9_]`; at least one.
pub const TOOL_NAME_MAX_CHARS: usize = 64;
/// Characters of a reference that the server looks up: a tool's id, a plugin tool's name, a model id (ours).
pub const REFERENCE_MAX_CHARS: usize = 256;
/// Characters of the label `name` of a spec (ours).
pub const LABEL_MAX_CHARS: usize = 256;
/// Characters of a tool's description (ours).
pub const DESCRIPTION_MAX_CHARS: usize = 32_768;
/// Bytes of one JSON document of a tool — schema, agent card, server info, annotations — as compact JSON (ours). Cards
/// are echoed into the log at every call.
pub const TOOL_DOCUMENT_MAX_BYTES: usize = 256 * 1024;
/// Entries of `headers` (ours).
pub const HEADERS_MAX: usize = 64;
/// Bytes of a header's name (ours); at least one.
pub const HEADER_NAME_MAX_BYTES: usize = 256;
/// Bytes of a header's value.
pub const HEADER_VALUE_MAX_BYTES: usize = 8 * 1024;
/// Bytes of a URL (ours).
pub const URL_MAX_BYTES: usize = 4096;
/// Characters of an A2A `contextId` (ours).
pub const CONTEXT_ID_MAX_CHARS: usize = 1024;
/// Entries of `toolFilter` (ours).
pub const TOOL_FILTER_MAX: usize = 512;

/// Characters of `toolUseId` (ours); at least one.
pub const TOOL_USE_ID_MAX_CHARS: usize = 256;
/// Bytes of a client tool's `result`.
pub const TOOL_RESULT_MAX_BYTES: usize = 2 * 1024 * 1024;
/// Bytes of a client tool's `error`.
pub const TOOL_ERROR_MAX_BYTES: usize = 8 * 1024;
/// Files of a message.
pub const ATTACHMENTS_MAX: usize = 20;
/// Bytes of all files of a message together, decoded: those that it carries, and those that the server fetches for it.
pub const ATTACHMENTS_MAX_BYTES: usize = 5 * 1024 * 1024;
/// Entries of `files` beside a client tool's result.
pub const TOOL_FILES_MAX: usize = 20;
/// Bytes of all `files` together, decoded.
pub const TOOL_FILES_MAX_BYTES: usize = 5 * 1024 * 1024;
/// Bytes of the JSON that carries a client tool's result and its files (ours): what they may have, each byte of the
/// text escaped (`\u001b`) and the files in base64, is 19 MB, and there is room for names.
pub const TOOL_RESULT_BODY_MAX_BYTES: usize = 20 * 1024 * 1024;
/// Characters of a file's name (ours); at least one.
pub const FILE_NAME_MAX_CHARS: usize = 255;

/// Bytes of a policy as compact JSON.
pub const POLICY_MAX_BYTES: usize = 32 * 1024;
/// Rules of a policy.
pub const POLICY_RULES_MAX: usize = 64;
/// Patterns of a rule.
pub const POLICY_PATTERNS_MAX: usize = 32;
/// Characters of a pattern; at least one.
pub const POLICY_PATTERN_MAX_CHARS: usize = 120;
/// Characters of a rule's `reason`.
pub const POLICY_REASON_MAX_CHARS: usize = 500;
/// Smallest `timeoutMs` of a rule.
pub const APPROVAL_TIMEOUT_MS_MIN: u64 = 1_000;
/// Largest `timeoutMs` of a rule: 30 days.
pub const APPROVAL_TIMEOUT_MS_MAX: u64 = 2_592_000_000;
/// Milliseconds that an approval stays open when its rule does not say: one day.
pub const APPROVAL_TIMEOUT_MS_DEFAULT: u64 = 86_400_000;
/// Pending approvals of a run.
pub const APPROVALS_PENDING_MAX: usize = 64;
/// Bytes of the edited arguments of a decision, as compact JSON.
pub const APPROVAL_INPUT_MAX_BYTES: usize = 256 * 1024;
/// Characters of the note of a decision.
pub const APPROVAL_NOTE_MAX_CHARS: usize = 2_000;
/// Sub-actions of one call.
pub const SUB_ACTIONS_MAX: usize = 64;

/// Violations listed in one refusal (ours); the last one then says how many are not listed.
pub const ISSUES_MAX: usize = 100;

/// Milliseconds of one call of a workspace tool when its definition does not say (ours).
pub const TOOL_TIMEOUT_MS_DEFAULT: u64 = 30_000;
/// Milliseconds of one call of an external agent when its definition does not say (ours): as a client's tool has.
pub const AGENT_TIMEOUT_MS_DEFAULT: u64 = 300_000;
/// Most milliseconds of one call of a workspace tool (ours).
pub const TOOL_TIMEOUT_MS_MAX: u64 = 600_000;
/// Bytes of a workspace tool's answer when its definition does not say (ours).
pub const TOOL_RESPONSE_BYTES_DEFAULT: u64 = 256 * 1024;
/// Most bytes of a workspace tool's answer (ours).
pub const TOOL_RESPONSE_BYTES_MAX: u64 = 2 * 1024 * 1024;
/// Bytes of a code tool's source (ours).
pub const CODE_SOURCE_MAX_BYTES: usize = 256 * 1024;
/// Megabytes of a code tool's memory when its definition does not say (ours).
pub const CODE_MEMORY_MB_DEFAULT: u32 = 64;
/// Most megabytes of a code tool's memory (ours).
pub const CODE_MEMORY_MB_MAX: u32 = 512;
/// Secrets that a code tool may read (ours).
pub const CODE_SECRETS_MAX: usize = 32;
/// Tools of a plugin (ours); at least one.
pub const PLUGIN_TOOLS_MAX: usize = 64;
/// Skills of an agent (ours).
pub const SKILLS_MAX: usize = 64;
/// Models of a provider (ours).
pub const PROVIDER_MODELS_MAX: usize = 256;
/// Bytes of a secret's value (ours): what a header can carry.
pub const SECRET_VALUE_MAX_BYTES: usize = HEADER_VALUE_MAX_BYTES;
/// Bytes of a whole definition as compact JSON (ours).
pub const DEFINITION_MAX_BYTES: usize = 2 * 1024 * 1024;
/// Bytes of a memory's text (ours): what is longer is several memories with links between them.
pub const MEMORY_TEXT_MAX_BYTES: usize = 16 * 1024;
/// Characters of a memory's key and of a link's relation (ours); at least one.
pub const MEMORY_KEY_MAX_CHARS: usize = 128;
/// Outgoing links of a memory (ours).
pub const MEMORY_LINKS_MAX: usize = 64;
/// Files of a plugin (ours).
pub const PLUGIN_FILES_MAX: usize = 64;
/// MCP servers of a plugin (ours).
pub const PLUGIN_SERVERS_MAX: usize = 16;
/// Arguments of a plugin's process (ours).
pub const PROCESS_ARGUMENTS_MAX: usize = 128;
/// Variables of a plugin's process (ours).
pub const PROCESS_VARIABLES_MAX: usize = 64;
/// Bytes of a process's command, one argument or one variable (ours).
pub const PROCESS_WORD_MAX_BYTES: usize = 8 * 1024;

/// Toolsets of a workspace, with those of the configuration file.
pub const TOOLSETS_MAX: usize = 128;
/// Default of a `stdio` toolset's `idleCloseMs`.
pub const TOOLSET_STDIO_IDLE_MS_DEFAULT: u64 = 600_000;
/// Default of `idleCloseMs` of toolsets on the network.
pub const TOOLSET_HTTP_IDLE_MS_DEFAULT: u64 = 60_000;
/// Smallest `idleCloseMs` of a toolset.
pub const TOOLSET_IDLE_MS_MIN: u64 = 1_000;
/// Largest `idleCloseMs` of a toolset.
pub const TOOLSET_IDLE_MS_MAX: u64 = 86_400_000;

/// Characters of a feedback's `explanation`.
pub const FEEDBACK_EXPLANATION_MAX_CHARS: usize = 8_000;
/// Characters of a feedback's `contentSnapshot`: as many as a message has.
pub const FEEDBACK_SNAPSHOT_MAX_CHARS: usize = MESSAGE_MAX_CHARS;

/// Bytes of a result that is retained for later turns of a session; a larger one is not.
pub const RETAINED_RESULT_MAX_BYTES: usize = 8 * 1024;
/// Bytes of the arguments of such a call, as JSON (ours).
pub const RETAINED_INPUT_MAX_BYTES: usize = 8 * 1024;
/// Calls of one run that are retained; of more, the last ones (ours).
pub const RETAINED_CALLS_MAX: usize = 32;

/// Characters of the name of a module or method of a project.
pub const PROJECT_NAME_MAX_CHARS: usize = 32;
/// Modules of a project.
pub const PROJECT_MODULES_MAX: usize = 32;
/// Methods that a project names of one module.
pub const PROJECT_METHODS_MAX: usize = 64;
/// Entries of `allow` of a project ref.
pub const PROJECT_ALLOW_MAX: usize = 64;
/// Results of `project_cli` that later runs of a session read, and their bytes with arguments.
pub const PROJECT_PAIRS_MAX: usize = 64;
/// See [`PROJECT_PAIRS_MAX`].
pub const PROJECT_PAIRS_MAX_BYTES: usize = 256 * 1024;

/// Bytes of a tool's output in `tool_result`. The model gets all of it.
pub const TOOL_RESULT_SHOWN_BYTES: usize = 4 * 1024;
