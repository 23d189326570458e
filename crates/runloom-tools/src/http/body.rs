//! Request bodies: JSON is built as data; text bodies are filled with the escaping of their media type.

use runloom_protocol::definition::HttpCall;
use runloom_protocol::definition::template::Piece;
use serde_json::{Map, Value};

use super::template_values::{Result, TemplateValues, as_text, pieces, sole_argument};
use crate::escape;

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// A request body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RequestBody {
    pub(super) text: String,
    /// The media type that is sent when the definition's headers declare none.
    pub(super) media_type: &'static str,
}

/// Builds the body; `declared` is the `Content-Type` of the definition's headers.
pub(super) fn build(
    call: &HttpCall,
    declared: Option<&str>,
    values: &TemplateValues<'_>,
) -> Result<Option<RequestBody>> {
    let essence = declared.unwrap_or_default().split(';').next();
    let essence = essence.unwrap_or_default().trim().to_ascii_lowercase();
    let data = match &call.body {
        Some(Value::String(text)) => return text_body(text, &essence, values).map(Some),
        Some(body) => fill(body, values)?.unwrap_or(Value::Null),
        None if call.method.carries_body() => Value::Object(values.arguments.clone()),
        None => return Ok(None),
    };
    if let (FORM, Value::Object(fields)) = (essence.as_str(), &data) {
        let text = form(fields);
        let media_type = FORM;
        return Ok(Some(RequestBody { text, media_type }));
    }
    Ok(Some(RequestBody {
        text: data.to_string(),
        media_type: JSON,
    }))
}

/// Fills JSON whose strings are templates. `None` when the value is a single argument that is absent.
fn fill(value: &Value, values: &TemplateValues<'_>) -> Result<Option<Value>> {
    Ok(Some(match value {
        Value::String(text) => match sole_argument(text) {
            Some(path) => return Ok(values.argument(path).cloned()),
            None => values
                .fill(text, |_, value| Ok(value.to_owned()))?
                .text
                .into(),
        },
        Value::Array(items) => {
            let items = items
                .iter()
                .map(|item| Ok(fill(item, values)?.unwrap_or(Value::Null)));
            Value::Array(items.collect::<Result<_>>()?)
        }
        Value::Object(fields) => {
            let mut filled = Map::new();
            for (name, value) in fields {
                if let Some(value) = fill(value, values)? {
                    filled.insert(name.clone(), value);
                }
            }
            Value::Object(filled)
        }
        plain => plain.clone(),
    }))
}

fn form(fields: &Map<String, Value>) -> String {
    let mut pairs = Vec::new();
    for (name, value) in fields {
        let items = match value {
            Value::Null => continue,
            Value::Array(items) => items.as_slice(),
            one => std::slice::from_ref(one),
        };
        for item in items {
            let (name, value) = (escape::percent(name), escape::percent(&as_text(item)));
            pairs.push(format!("{name}={value}"));
        }
    }
    pairs.join("&")
}

fn text_body(text: &str, essence: &str, values: &TemplateValues<'_>) -> Result<RequestBody> {
    let looks_like_json = essence.is_empty() && text.trim_start().starts_with(['{', '[']);
    let filled = |encode: fn(&str) -> String| values.fill(text, |_, value| Ok(encode(value)));
    let (text, media_type) = if looks_like_json || essence == JSON || essence.ends_with("+json") {
        (json_text(text, values)?, JSON)
    } else if essence == FORM {
        (filled(escape::percent)?.text, FORM)
    } else if essence.ends_with("xml") || essence == "text/html" {
        (filled(escape::markup)?.text, TEXT)
    } else {
        (filled(str::to_owned)?.text, TEXT)
    };
    Ok(RequestBody { text, media_type })
}

/// Fills JSON written as text: inside quotes a value becomes part of the string, elsewhere it becomes a JSON value.
fn json_text(text: &str, values: &TemplateValues<'_>) -> Result<String> {
    let (mut filled, mut quoted, mut escaped) = (String::new(), false, false);
    for piece in pieces(text)? {
        let value = match piece {
            Piece::Text(text) => {
                for c in text.chars() {
                    (quoted, escaped) = match c {
                        _ if escaped => (quoted, false),
                        '\\' if quoted => (quoted, true),
                        '"' => (!quoted, false),
                        _ => (quoted, false),
                    };
                }
                filled.push_str(text);
                continue;
            }
            Piece::Secret(name) => Value::from(values.secret(name)?),
            Piece::Argument(path) => values.argument(path).cloned().unwrap_or(Value::Null),
        };
        match (quoted, &value) {
            (true, Value::Null) => {}
            (true, value) => filled.push_str(&escape::json_string(&as_text(value))),
            (false, value) => filled.push_str(&value.to_string()),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use runloom_protocol::definition::{HttpMethod, ResponseMapping};
    use serde_json::json;

    use super::*;
    use crate::call_secrets::CallSecrets;

    fn sent(
        body: Option<Value>,
        media_type: Option<&str>,
        arguments: &Value,
    ) -> Option<RequestBody> {
        let call = HttpCall {
            method: HttpMethod::Post,
            url: "https://a.example/".to_owned(),
            headers: std::collections::BTreeMap::new(),
            query: std::collections::BTreeMap::new(),
            body,
            response: ResponseMapping::default(),
            max_response_bytes: 1000,
        };
        let secrets = CallSecrets::of(&[("KEY", "s\"cret")]);
        let values = TemplateValues {
            arguments: arguments.as_object().unwrap(),
            secrets: &secrets,
        };
        build(&call, media_type, &values).unwrap()
    }

    fn text(body: Value, media_type: Option<&str>, arguments: &Value) -> String {
        sent(Some(body), media_type, arguments).unwrap().text
    }

    const HOSTILE: &str = "x\", \"admin\": true, \"y\": \"{{secret:KEY}}\n<b>&";

    #[test]
    fn builds_json_as_data() {
        let arguments = json!({"q": HOSTILE, "n": 5, "list": [1, {"a": null}], "none": null});
        let body = json!({"query": "find {{q}}", "n": "{{n}}", "n2": "n={{n}}", "list": "{{list}}", "none": "{{none}}",
            "gone": "{{gone}}", "items": ["{{gone}}", "{{n}}"], "key": "{{secret:KEY}}", "fixed": 1, "mixed": "a{{gone}}b"});
        let sent: Value = serde_json::from_str(&text(body, None, &arguments)).unwrap();
        assert_eq!(
            sent,
            json!({"query": format!("find {HOSTILE}"), "n": 5, "n2": "n=5", "list": [1, {"a": null}],
                "items": [null, 5], "key": "s\"cret", "fixed": 1, "mixed": "ab"})
        );
    }

    #[test]
    fn json_text_keeps_its_structure() {
        let arguments = json!({"q": HOSTILE, "n": 5, "o": {"a": "\""}});
        let body = r#"{"in": "a \" {{q}}", "out": {{q}}, "n": {{n}}, "o": {{o}}, "oin": "{{o}}", "gone": {{gone}}, "k": "{{secret:KEY}}"}"#;
        for media_type in [
            None,
            Some("application/json; charset=utf-8"),
            Some("application/vnd.x+json"),
        ] {
            let sent: Value =
                serde_json::from_str(&text(json!(body), media_type, &arguments)).unwrap();
            assert_eq!(
                sent,
                json!({"in": format!("a \" {HOSTILE}"), "out": HOSTILE, "n": 5, "o": {"a": "\""},
                    "oin": "{\"a\":\"\\\"\"}", "gone": null, "k": "s\"cret"})
            );
        }
    }

    #[test]
    fn escapes_text_by_media_type() {
        let arguments = json!({"q": "a&b=<c>\"", "n": 5});
        let filled = |body: &str, media_type| text(json!(body), Some(media_type), &arguments);
        assert_eq!(filled("q={{q}}&n={{n}}", FORM), "q=a%26b%3D%3Cc%3E%22&n=5");
        assert_eq!(
            filled("<q a=\"{{q}}\"/>", "text/xml"),
            "<q a=\"a&amp;b=&lt;c&gt;&quot;\"/>"
        );
        assert_eq!(filled("{{q}}!", "text/plain"), "a&b=<c>\"!");
        let plain = sent(Some(json!("say {{q}}")), None, &arguments).unwrap();
        assert_eq!(plain.media_type, TEXT);
    }

    #[test]
    fn sends_the_arguments_when_the_definition_has_no_body() {
        let arguments = json!({"q": "a b", "tags": ["x", "y"], "none": null});
        let body = sent(None, None, &arguments).unwrap();
        assert_eq!((body.text, body.media_type), (arguments.to_string(), JSON));
        let body = sent(None, Some(FORM), &arguments).unwrap();
        assert_eq!(
            (body.text.as_str(), body.media_type),
            ("q=a%20b&tags=x&tags=y", FORM)
        );
    }
}
