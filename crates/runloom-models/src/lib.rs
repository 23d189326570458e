//! One folder per LLM API: a pure request encoder and a pure stream decoder in each.
