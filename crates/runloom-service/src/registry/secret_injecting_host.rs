//! The tool host that fills in secrets of persisted agents' tools.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use runloom_protocol::definition::template;
use runloom_protocol::resource::{InstalledPlugin, ToolsetTool};
use runloom_protocol::tools::ToolRef;
use tokio_util::sync::CancellationToken;

use runloom_ports::error::{Chain, Result};
use runloom_ports::secret::{Secret, redact_schema};
use runloom_ports::tools::{
    FetchedFile, Invocation, Outcome, ServerTool, ToolContext, ToolDefinitions, ToolHost,
    fill_secrets,
};

/// A host that fills in `{{secret:NAME}}` in the refs of one call, and redacts the secrets in what the peer returns.
pub struct SecretInjectingHost {
    inner: Arc<dyn ToolHost>,
    definitions: Arc<dyn ToolDefinitions>,
}

impl std::fmt::Debug for SecretInjectingHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretInjectingHost")
            .finish_non_exhaustive()
    }
}

/// A context in clear, and the secrets that are in it.
struct Filled {
    context: ToolContext,
    secrets: Vec<Secret>,
}

impl SecretInjectingHost {
    /// Fills in what `definitions` knows, for `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn ToolHost>, definitions: Arc<dyn ToolDefinitions>) -> Self {
        Self { inner, definitions }
    }

    /// `None` when no ref names a secret, which is nearly always.
    async fn filled(&self, context: &ToolContext) -> Option<Filled> {
        if !context.refs.iter().any(names_secrets) {
            return None;
        }
        let (mut refs, mut secrets) = ((*context.refs).clone(), Vec::new());
        for headers in refs.iter_mut().filter_map(ToolRef::headers_mut) {
            let mut unfilled = Vec::new();
            for (name, value) in headers.iter_mut() {
                if template::secrets(value).next().is_none() {
                    continue;
                }
                match self.fill(&context.workspace, value, &mut secrets).await {
                    Ok(filled) => filled.expose().clone_into(value),
                    Err(error) => {
                        tracing::warn!(header = name, error = %Chain(&error), "header secret missing");
                        unfilled.push(name.clone());
                    }
                }
            }
            // The peer refuses a call without its credential, and the model is told so; it must not get the
            // template's text.
            headers.retain(|name, _| !unfilled.contains(name));
        }
        let context = ToolContext {
            refs: Arc::new(refs),
            ..context.clone()
        };
        Some(Filled { context, secrets })
    }

    async fn fill(&self, workspace: &str, text: &str, used: &mut Vec<Secret>) -> Result<Secret> {
        for name in template::secrets(text) {
            used.extend(self.definitions.secret(workspace, name).await?);
        }
        fill_secrets(&*self.definitions, workspace, text).await
    }
}

fn names_secrets(tool: &ToolRef) -> bool {
    tool.headers()
        .into_iter()
        .flat_map(BTreeMap::values)
        .any(|value| template::secrets(value).next().is_some())
}

#[async_trait]
impl ToolHost for SecretInjectingHost {
    async fn check(&self, workspace: &str, refs: &[ToolRef]) -> Result<()> {
        self.inner.check(workspace, refs).await
    }

    async fn installed(&self, workspace: &str) -> Result<Vec<InstalledPlugin>> {
        self.inner.installed(workspace).await
    }

    async fn toolset_tools(&self, workspace: &str, name: &str) -> Result<Option<Vec<ToolsetTool>>> {
        self.inner.toolset_tools(workspace, name).await
    }

    async fn fetch(
        &self,
        url: &str,
        most: usize,
        within: Duration,
    ) -> std::result::Result<FetchedFile, String> {
        self.inner.fetch(url, most, within).await
    }

    fn check_address(&self, url: &str) -> std::result::Result<(), String> {
        self.inner.check_address(url)
    }

    async fn resolve(&self, context: &ToolContext, refs: &[ToolRef]) -> Vec<ServerTool> {
        let Some(filled) = self.filled(context).await else {
            return self.inner.resolve(context, refs).await;
        };
        // The refs are the context's own; a caller that gives others gets them as they are.
        let same = refs == context.refs.as_slice();
        let refs = if same { &filled.context.refs } else { refs };
        let mut tools = self.inner.resolve(&filled.context, refs).await;
        for secret in &filled.secrets {
            for tool in &mut tools {
                let redact = |text: &str| secret.redact(text);
                tool.description = secret.redact(&tool.description);
                redact_schema(&mut tool.parameters, &redact);
                if let Some(schema) = &mut tool.output_schema {
                    redact_schema(schema, &redact);
                }
                // The rest of the target is no text of a peer's, and leads back to the tool.
                if let Some(why) = tool.target.get_mut("unavailable") {
                    secret.redact_json(why);
                }
            }
        }
        tools
    }

    async fn call(
        &self,
        context: &ToolContext,
        tool: &ServerTool,
        call: Invocation,
        cancel: CancellationToken,
    ) -> Outcome {
        let Some(filled) = self.filled(context).await else {
            return self.inner.call(context, tool, call, cancel).await;
        };
        let called = self.inner.call(&filled.context, tool, call, cancel);
        let mut outcome = called.await;
        for secret in &filled.secrets {
            outcome = outcome.redacted(&|text| secret.redact(text));
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runloom_ports::effect::Effect;
    use runloom_ports::tools::{NoTools, PluginManifest, ToolDefinition, Toolset};
    use runloom_protocol::id::RunId;
    use serde_json::{Value, json};

    /// Repeats the headers that it would send.
    struct Echo;

    #[async_trait]
    impl ToolHost for Echo {
        async fn check(&self, _: &str, _: &[ToolRef]) -> Result<()> {
            Ok(())
        }

        async fn resolve(&self, _: &ToolContext, refs: &[ToolRef]) -> Vec<ServerTool> {
            let headers = refs[0].clone().headers_mut().cloned().unwrap();
            let said = headers["A"].clone();
            vec![ServerTool {
                action_effects: None,
                name: "x".to_owned(),
                description: said.clone(),
                parameters: json!({"anyOf": [{"default": said}]}),
                output_schema: Some(json!({"title": said})),
                effect: Effect::Read,
                annotations: None,
                policy: None,
                from: 0,
                target: json!({"kind": "mcp", "tool": "s3cret", "unavailable": said}),
            }]
        }

        async fn call(
            &self,
            context: &ToolContext,
            _: &ServerTool,
            _: Invocation,
            _: CancellationToken,
        ) -> Outcome {
            let headers = (*context.refs).clone()[0].headers_mut().cloned().unwrap();
            assert_eq!(headers.get("A").map(String::as_str), Some("Bearer s3cret"));
            Outcome {
                content: format!("{headers:?}"),
                ..Outcome::default()
            }
        }

        async fn installed(&self, workspace: &str) -> Result<Vec<InstalledPlugin>> {
            NoTools.installed(workspace).await
        }

        async fn toolset_tools(
            &self,
            workspace: &str,
            name: &str,
        ) -> Result<Option<Vec<ToolsetTool>>> {
            NoTools.toolset_tools(workspace, name).await
        }

        fn check_address(&self, url: &str) -> std::result::Result<(), String> {
            Err(format!("{url} is refused"))
        }

        async fn fetch(
            &self,
            url: &str,
            max_bytes: usize,
            timeout: Duration,
        ) -> std::result::Result<FetchedFile, String> {
            NoTools.fetch(url, max_bytes, timeout).await
        }
    }

    struct One;

    #[async_trait]
    impl ToolDefinitions for One {
        async fn tool(&self, _: &str, _: &str) -> Result<Option<ToolDefinition>> {
            Ok(None)
        }

        async fn plugins(&self, _: &str) -> Result<Vec<PluginManifest>> {
            Ok(Vec::new())
        }

        async fn toolset(&self, _: &str, _: &str) -> Result<Option<Toolset>> {
            Ok(None)
        }

        async fn secret(&self, _: &str, name: &str) -> Result<Option<Secret>> {
            Ok((name == "KEY").then(|| Secret::new("s3cret")))
        }
    }

    #[test]
    fn forwards_check_address() {
        let host = SecretInjectingHost::new(Arc::new(Echo), Arc::new(One));
        let refused = host.check_address("http://10.0.0.1/").unwrap_err();
        assert_eq!(refused, "http://10.0.0.1/ is refused");
    }

    #[tokio::test]
    async fn redacts_secrets_in_tool_listings() {
        let tool = json!({"kind": "mcp", "name": "x", "url": "https://x.example/", "headers": {"A": "Bearer {{secret:KEY}}"}});
        let context = ToolContext {
            session: None,
            project: None,
            workspace: "acme".into(),
            run: RunId::from_suffix("1"),
            refs: Arc::new(vec![serde_json::from_value(tool).unwrap()]),
        };
        let host = SecretInjectingHost::new(Arc::new(Echo), Arc::new(One));
        let tool = host.resolve(&context, &context.refs).await.remove(0);
        assert_eq!(tool.description, "Bearer ***");
        assert_eq!(
            tool.parameters,
            json!({"anyOf": [{"default": "Bearer ***"}]})
        );
        assert_eq!(tool.output_schema, Some(json!({"title": "Bearer ***"})));
        assert_eq!(
            tool.target,
            json!({"kind": "mcp", "tool": "s3cret", "unavailable": "Bearer ***"})
        );
    }

    #[tokio::test]
    async fn redacts_secrets_in_outcomes() {
        let tool = json!({"kind": "mcp", "name": "x", "url": "https://x.example/",
            "headers": {"A": "Bearer {{secret:KEY}}", "B": "{{secret:GONE}}", "C": "plain"}});
        let context = ToolContext {
            session: None,
            project: None,
            workspace: "acme".into(),
            run: RunId::from_suffix("1"),
            refs: Arc::new(vec![serde_json::from_value(tool).unwrap()]),
        };
        let host = SecretInjectingHost::new(Arc::new(Echo), Arc::new(One));
        let tool = ServerTool {
            action_effects: None,
            name: "x".to_owned(),
            description: String::new(),
            parameters: json!({}),
            output_schema: None,
            effect: Effect::Read,
            annotations: None,
            policy: None,
            from: 0,
            target: Value::Null,
        };
        let call = Invocation {
            tool_use_id: "tu_1".to_owned(),
            input: json!({}),
            trace: None,
        };
        let outcome = host
            .call(&context, &tool, call, CancellationToken::new())
            .await;
        assert_eq!(outcome.content, r#"{"A": "Bearer ***", "C": "plain"}"#);
    }
}
