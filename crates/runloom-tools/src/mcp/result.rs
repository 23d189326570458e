//! What the model reads of an MCP result: text, and files that never appear in the text.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents, ServerResult};
use runloom_ports::tools::Outcome;
use serde_json::Value;

use super::session::{McpError, invalid_response};
use crate::content::ResultContent;

/// Minimum length of a file's base64 that is searched for in structured content; shorter ones may be ordinary words.
const BASE64_MIN_BYTES: usize = 24;

/// Marks an output schema whose only property `result` wraps a value that is not an object.
const FASTMCP_WRAP: &str = "x-fastmcp-wrap-result";

/// Which form of a result the model reads when a server sends both.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ResultForm<'a> {
    /// The text blocks; structured content only when there is no text.
    Text,
    /// Structured content; text blocks only without it.
    Structured {
        /// The tool's output schema.
        schema: Option<&'a Value>,
    },
}

/// The outcome of a call.
pub(super) fn outcome(result: ServerResult, form: ResultForm<'_>) -> Result<Outcome, McpError> {
    match result {
        ServerResult::CallToolResult(result) => Ok(read(result, form)),
        ServerResult::InputRequiredResult(_) => Err(McpError::transient(
            "the tool asks for interactive input, which is not supported",
        )),
        _ => Err(invalid_response("tools/call")),
    }
}

/// A file of a result.
struct ResultFile {
    name: String,
    mime_type: String,
    /// Base64.
    data: String,
}

/// The content blocks of a result.
#[derive(Default)]
struct Blocks {
    /// Text blocks.
    texts: Vec<String>,
    /// Text of embedded resources, links and notes.
    others: Vec<String>,
    files: Vec<ResultFile>,
}

fn read(result: CallToolResult, form: ResultForm<'_>) -> Outcome {
    let mut blocks = Blocks::default();
    for (index, block) in result.content.into_iter().enumerate() {
        blocks.add(index, block);
    }
    let structured = result.structured_content.filter(|value| !value.is_null());
    let structured = structured.map(|value| blocks.text_of(value, form));
    let mut content = ResultContent::new();
    match (form, &structured) {
        (ResultForm::Structured { .. }, Some(text)) => content.text(text),
        _ => blocks.texts.iter().for_each(|text| content.text(text)),
    }
    blocks.others.iter().for_each(|text| content.text(text));
    if let (ResultForm::Text, Some(text), true) = (form, &structured, content.is_empty()) {
        content.text(text);
    }
    for file in &blocks.files {
        content.file(&file.name, &file.mime_type, &file.data);
    }
    if result.is_error == Some(true) {
        if content.is_empty() {
            content.text("The tool failed without a message.");
        }
        return content.error();
    }
    content.success()
}

impl Blocks {
    fn add(&mut self, index: usize, block: ContentBlock) {
        match block {
            ContentBlock::Text(text) => self.texts.push(text.text),
            ContentBlock::Image(image) => self.files.push(ResultFile {
                name: numbered("image", index, &image.mime_type),
                mime_type: image.mime_type,
                data: image.data,
            }),
            ContentBlock::Audio(audio) => self.files.push(ResultFile {
                name: numbered("audio", index, &audio.mime_type),
                mime_type: audio.mime_type,
                data: audio.data,
            }),
            ContentBlock::Resource(resource) => self.embedded(resource.resource),
            ContentBlock::ResourceLink(link) => {
                self.others
                    .push(format!("[resource {}: {}]", link.name, link.uri));
            }
            _ => self
                .others
                .push("[content block of an unknown type omitted]".to_owned()),
        }
    }

    fn embedded(&mut self, resource: ResourceContents) {
        match resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                self.others.push(format!("[resource {uri}]\n{text}"));
            }
            ResourceContents::BlobResourceContents {
                uri,
                mime_type,
                blob,
                ..
            } => self.files.push(ResultFile {
                name: name_of_uri(&uri),
                mime_type: mime_type.unwrap_or_else(|| "application/octet-stream".to_owned()),
                data: blob,
            }),
            _ => self
                .others
                .push("[resource of an unknown type omitted]".to_owned()),
        }
    }

    /// Structured content as text, without the base64 of files.
    fn text_of(&mut self, mut value: Value, form: ResultForm<'_>) -> String {
        self.take_files(&mut value);
        match self.wrapped_text(&value, form) {
            Some(text) => text.to_owned(),
            None => value.to_string(),
        }
    }

    /// The text that structured content only wraps: marked by the output schema, or repeated by the text blocks.
    fn wrapped_text<'v>(&self, value: &'v Value, form: ResultForm<'_>) -> Option<&'v str> {
        let object = value.as_object().filter(|object| object.len() == 1)?;
        let text = object.get("result")?.as_str()?;
        let schema = match form {
            ResultForm::Structured { schema } => schema,
            ResultForm::Text => None,
        };
        let is_marked =
            schema.and_then(|schema| schema.get(FASTMCP_WRAP)) == Some(&Value::Bool(true));
        (is_marked || self.texts.join("\n") == text).then_some(text)
    }

    /// Replaces the base64 of files by their names. Files that only the structured content has are added.
    fn take_files(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => {
                for file in &self.files {
                    if file.data.len() >= BASE64_MIN_BYTES && text.contains(&file.data) {
                        *text = text.replace(&file.data, &format!("[file {}]", file.name));
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.take_files(item)),
            Value::Object(object) => {
                let found = file_block(object, self.files.len());
                let is_known =
                    |file: &ResultFile| self.files.iter().any(|own| own.data == file.data);
                self.files.extend(found.filter(|file| !is_known(file)));
                object.values_mut().for_each(|value| self.take_files(value));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// The file that an object of structured content holds, if it has the form of a content block.
fn file_block(object: &serde_json::Map<String, Value>, index: usize) -> Option<ResultFile> {
    let text = |key: &str| object.get(key).and_then(Value::as_str);
    let mime_type = text("mimeType");
    if let (Some(kind @ ("image" | "audio")), Some(data)) = (text("type"), text("data")) {
        let mime_type = mime_type.unwrap_or("application/octet-stream");
        return Some(ResultFile {
            name: numbered(kind, index, mime_type),
            mime_type: mime_type.to_owned(),
            data: data.to_owned(),
        });
    }
    let (uri, blob) = (text("uri")?, text("blob")?);
    Some(ResultFile {
        name: name_of_uri(uri),
        mime_type: mime_type.unwrap_or("application/octet-stream").to_owned(),
        data: blob.to_owned(),
    })
}

fn name_of_uri(uri: &str) -> String {
    let name = uri.rsplit('/').find(|part| !part.is_empty());
    name.unwrap_or("resource").to_owned()
}

/// A file name such as `image-2.png` for a block without a name.
fn numbered(what: &str, index: usize, mime_type: &str) -> String {
    let sub = mime_type.split([';', '+']).next().unwrap_or_default();
    let sub = sub.split_once('/').map_or("bin", |(_, sub)| sub.trim());
    format!("{what}-{}.{sub}", index + 1)
}

#[cfg(test)]
mod tests {
    use runloom_ports::tools::Outcome;
    use serde_json::json;

    use super::*;

    const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ";

    fn outcome_of(result: Value, form: ResultForm<'_>) -> Outcome {
        read(serde_json::from_value(result).unwrap(), form)
    }

    #[test]
    fn text_wins_for_refs_and_structured_content_for_toolsets() {
        let both = json!({"content": [{"type": "text", "text": "12 degrees"}], "structuredContent": {"celsius": 12}});
        let structured = ResultForm::Structured { schema: None };
        assert_eq!(
            outcome_of(both.clone(), ResultForm::Text).content,
            "12 degrees"
        );
        assert_eq!(outcome_of(both, structured).content, r#"{"celsius":12}"#);
        let alone = json!({"content": [], "structuredContent": {"celsius": 12}});
        assert_eq!(
            outcome_of(alone, ResultForm::Text).content,
            r#"{"celsius":12}"#
        );
        let text =
            json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]});
        assert_eq!(outcome_of(text, structured).content, "a\nb");
    }

    #[test]
    fn unwraps_structured_content_that_only_wraps_a_text() {
        let marked = json!({"type": "object", "properties": {"result": {"type": "string"}}, FASTMCP_WRAP: true});
        let wrapped = json!({"content": [], "structuredContent": {"result": "hi"}});
        let read = |result: &Value, schema| {
            outcome_of(result.clone(), ResultForm::Structured { schema }).content
        };
        assert_eq!(read(&wrapped, Some(&marked)), "hi");
        assert_eq!(read(&wrapped, None), r#"{"result":"hi"}"#);
        let repeated = json!({"content": [{"type": "text", "text": "hi"}], "structuredContent": {"result": "hi"}});
        assert_eq!(read(&repeated, None), "hi");
        let number =
            json!({"content": [{"type": "text", "text": "5"}], "structuredContent": {"result": 5}});
        assert_eq!(read(&number, Some(&marked)), r#"{"result":5}"#);
    }

    #[test]
    fn base64_of_files_never_reaches_the_text() {
        let block = json!({"type": "image", "data": PICTURE, "mimeType": "image/png"});
        let repeated = json!({"content": [block], "structuredContent": {"result": [block], "url": format!("data:image/png;base64,{PICTURE}")}});
        let only_structured = json!({"content": [], "structuredContent": {"result": [block]}});
        let blob = json!({"content": [], "structuredContent": {"uri": "x://a/b.png", "blob": PICTURE, "mimeType": "image/png"}});
        for result in [repeated, only_structured, blob] {
            for form in [ResultForm::Text, ResultForm::Structured { schema: None }] {
                let outcome = outcome_of(result.clone(), form);
                assert!(
                    !outcome.content.contains(&PICTURE[..20]),
                    "{}",
                    outcome.content
                );
                assert!(!outcome.files.is_empty(), "{}", outcome.content);
                assert_eq!(outcome.files[0].data, PICTURE);
            }
        }
    }
}
