//! The schemas of server tools, compiled off the async threads before the run machine uses them.

use std::sync::Arc;
use std::time::Duration;

use runloom_protocol::validate::fits_in_depth;
use tokio::time::Instant;

use crate::run::{Note, PlacedNote};
use crate::toolbox::any_object;
use runloom_ports::store::LogEntry;
use runloom_ports::tools::ServerTool;
use runloom_schema::{SchemaCache, compile_off_thread};

/// Time to compile the schemas of one run.
const AT_MOST: Duration = Duration::from_secs(10);

/// The resolved tools with usable schemas. A schema that is not compiled in time or nested too deep to be stored is
/// replaced by one that accepts any object; the peer checks the arguments as well.
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

/// Compiles the schemas in the log of a claimed run, before it is folded.
pub(crate) async fn compile_schemas(log: &[LogEntry], schemas: &Arc<SchemaCache>) {
    let end = Instant::now() + AT_MOST;
    let may_hold = |entry: &&LogEntry| entry.notes.contains(r#""toolset""#);
    for entry in log.iter().filter(may_hold) {
        // Unreadable notes are reported by the fold.
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

/// Whether the schema is compiled or cannot be.
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
            action_effects: None,
            from: 0,
            name: "t".to_owned(),
            description: String::new(),
            parameters,
            output_schema: None,
            effect: Effect::Once,
            annotations: None,
            policy: None,
            target: Value::Null,
        }
    }

    #[tokio::test]
    async fn replaces_schemas_that_cannot_be_stored() {
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
    async fn compiles_schemas_of_a_log() {
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
        compile_schemas(&[entry], &schemas).await;
        assert!(schemas.knows(&plain));
    }
}
