//! The schemas of a run's server tools, which strangers wrote: compiled off the async threads before the machine meets them.

use std::sync::Arc;
use std::time::Duration;

use runloom_protocol::validate::fits_in_depth;
use tokio::time::Instant;

use crate::run::{Note, PlacedNote};
use crate::toolbox::any_object;
use runloom_ports::store::LogEntry;
use runloom_ports::tools::ServerTool;
use runloom_schema::{SchemaCache, compile_off_thread};

/// How long the schemas of one run may take together.
const AT_MOST: Duration = Duration::from_secs(10);

/// What is kept of tools that were just resolved. A schema that is not compiled in time, or lies too deep to be stored, becomes one that
/// accepts any object: the peer checks, too.
pub(super) async fn usable(
    mut tools: Vec<ServerTool>,
    schemas: &Arc<SchemaCache>,
) -> Vec<ServerTool> {
    let end = Instant::now() + AT_MOST;
    for tool in &mut tools {
        if !fits_in_depth(&tool.parameters) || !compiled(tool, schemas, end).await {
            tool.parameters = any_object();
        }
        tool.output_schema.take_if(|schema| !fits_in_depth(schema));
    }
    tools
}

/// Compiles what the log of a claimed run will need when it is folded.
pub(crate) async fn meet_schemas(log: &[LogEntry], schemas: &Arc<SchemaCache>) {
    let end = Instant::now() + AT_MOST;
    let may_hold = |entry: &&LogEntry| entry.notes.contains(r#""toolset""#);
    for entry in log.iter().filter(may_hold) {
        // What cannot be read is found when it is folded.
        let notes: Vec<PlacedNote> = serde_json::from_str(&entry.notes).unwrap_or_default();
        for placed in notes {
            let Note::Toolset { tools } = placed.note else {
                continue;
            };
            for tool in &tools {
                compiled(tool, schemas, end).await;
            }
        }
    }
}

/// True when the schema need not be compiled any more, be it because it is none.
async fn compiled(tool: &ServerTool, schemas: &Arc<SchemaCache>, end: Instant) -> bool {
    if schemas.knows(&tool.parameters) {
        return true;
    }
    let schema = Arc::new(tool.parameters.clone());
    let compiling = compile_off_thread(Arc::clone(schemas), schema);
    matches!(tokio::time::timeout_at(end, compiling).await, Ok(Ok(_)))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::{Value, json};

    use super::*;
    use runloom_ports::effect::Effect;
    use runloom_ports::store::{Chunk, Millis};

    fn tool(parameters: Value) -> ServerTool {
        ServerTool {
            from: 0,
            name: "t".to_owned(),
            description: String::new(),
            parameters,
            output_schema: None,
            effect: Effect::Once,
            target: Value::Null,
        }
    }

    #[tokio::test]
    async fn what_a_peer_declares_is_compiled_before_it_is_noted_and_shallow_enough_to_be_stored() {
        let schemas = Arc::new(SchemaCache::new());
        let plain = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        let deep = (0..120).fold(json!({}), |inner, _| json!({"x": inner}));
        let mut lined = tool(plain.clone());
        lined.output_schema = Some(deep.clone());
        let kept = usable(vec![lined, tool(deep)], &schemas).await;
        assert!(schemas.knows(&plain));
        assert_eq!(kept[0].parameters, plain);
        assert_eq!(kept[0].output_schema, None);
        assert_eq!(kept[1].parameters, any_object());
    }

    #[tokio::test]
    async fn a_log_that_is_about_to_be_folded_finds_its_schemas_compiled() {
        let schemas = Arc::new(SchemaCache::new());
        let plain = json!({"type": "object", "required": ["city"]});
        let note = Note::Toolset {
            tools: vec![tool(plain.clone())],
        };
        let placed = PlacedNote { after: 1, note };
        let entry = LogEntry {
            chunk: Chunk {
                first_seq: 2,
                last_seq: 1,
                terminal: false,
                frames: Bytes::new(),
            },
            notes: serde_json::to_string(&[placed]).unwrap(),
            at: Millis(0),
        };
        meet_schemas(&[entry], &schemas).await;
        assert!(schemas.knows(&plain));
    }
}
