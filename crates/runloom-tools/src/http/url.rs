//! Request URLs: arguments fill path segments and query values and never change the structure of the URL.

use runloom_protocol::definition::HttpCall;
use runloom_protocol::definition::template::Piece;

use reqwest::Url;
use serde_json::Value;

use super::template_values::{Result, TemplateValues, as_text, pieces, sole_argument};
use crate::escape;

/// Builds the URL with all templates filled in.
pub(super) fn build(call: &HttpCall, values: &TemplateValues<'_>) -> Result<Url> {
    let mut url = fill(&call.url, values)?;
    url.set_fragment(None);
    for (name, text) in &call.query {
        match sole_argument(text).map(|path| values.argument(path)) {
            Some(None) => {}
            // A list repeats the parameter name, which most servers understand.
            Some(Some(Value::Array(items))) => {
                for item in items.iter().filter(|item| !item.is_null()) {
                    url.query_pairs_mut().append_pair(name, &as_text(item));
                }
            }
            Some(Some(_)) | None => {
                let filled = values.fill(text, |_, value| Ok(value.to_owned()))?;
                if !filled.is_vacant {
                    url.query_pairs_mut().append_pair(name, &filled.text);
                }
            }
        }
    }
    Ok(url)
}

/// Fills the URL template. The result must have the same structure as the template filled with a single letter.
fn fill(text: &str, values: &TemplateValues<'_>) -> Result<Url> {
    let (mut filled, mut model) = (String::new(), String::new());
    for piece in pieces(text)? {
        let value = match piece {
            Piece::Text(text) => {
                filled.push_str(text);
                model.push_str(text);
                continue;
            }
            Piece::Secret(name) => values.secret(name)?.to_owned(),
            Piece::Argument(path) => match values.argument(path) {
                Some(value) => as_text(value).into_owned(),
                None if model.contains('?') => String::new(),
                None => return Err(format!("the argument `{path}` is missing")),
            },
        };
        filled.push_str(&escape::percent(&value));
        model.push('x');
    }
    let parse = |text: &str| {
        Url::parse(text).map_err(|error| format!("the tool's URL is invalid ({error})"))
    };
    if filled == model {
        return parse(&filled);
    }
    let (filled, model) = (parse(&filled)?, parse(&model)?);
    if has_same_structure(&filled, &model) {
        return Ok(filled);
    }
    Err("an argument in the URL is empty, \".\" or \"..\", which would change the path".to_owned())
}

/// Compares parsed URLs, because percent-encoding leaves dots alone and parsers resolve `.` and `..` in every encoding.
fn has_same_structure(filled: &Url, model: &Url) -> bool {
    let segments = |url: &Url| -> Vec<String> {
        let segments = url.path_segments().into_iter().flatten();
        segments.map(str::to_owned).collect()
    };
    let origin = |url: &Url| {
        let host = url.host_str().map(str::to_owned);
        (url.scheme().to_owned(), host, url.port())
    };
    let (own, expected) = (segments(filled), segments(model));
    origin(filled) == origin(model)
        && filled.query_pairs().count() == model.query_pairs().count()
        && own.len() == expected.len()
        && own
            .iter()
            .zip(&expected)
            .all(|(own, expected)| own.is_empty() == expected.is_empty())
}

#[cfg(test)]
mod tests {
    use runloom_protocol::definition::{HttpMethod, ResponseMapping};
    use serde_json::json;

    use super::*;
    use crate::call_secrets::CallSecrets;

    fn call(url: &str, query: &[(&str, &str)]) -> HttpCall {
        let query = query
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        HttpCall {
            method: HttpMethod::Get,
            url: url.to_owned(),
            headers: std::collections::BTreeMap::new(),
            query: query.collect(),
            body: None,
            response: ResponseMapping::default(),
            max_response_bytes: 1000,
        }
    }

    fn built(call: &HttpCall, arguments: &Value) -> Result<String> {
        let secrets = CallSecrets::of(&[("KEY", "s/cret&")]);
        let values = TemplateValues {
            arguments: arguments.as_object().unwrap(),
            secrets: &secrets,
        };
        build(call, &values).map(String::from)
    }

    #[test]
    fn encodes_hostile_arguments() {
        let template = "https://api.example/v1/users/{{id}}/mails?q={{q}}";
        for (value, expected) in [
            (json!("7"), "https://api.example/v1/users/7/mails?q=7"),
            (json!(7), "https://api.example/v1/users/7/mails?q=7"),
            (
                json!(true),
                "https://api.example/v1/users/true/mails?q=true",
            ),
            (
                json!("a/b"),
                "https://api.example/v1/users/a%2Fb/mails?q=a%2Fb",
            ),
            (
                json!("../../admin"),
                "https://api.example/v1/users/..%2F..%2Fadmin/mails?q=..%2F..%2Fadmin",
            ),
            (
                json!("%2e%2e"),
                "https://api.example/v1/users/%252e%252e/mails?q=%252e%252e",
            ),
            (
                json!("..\\x"),
                "https://api.example/v1/users/..%5Cx/mails?q=..%5Cx",
            ),
            (
                json!("a?b=c&d#e"),
                "https://api.example/v1/users/a%3Fb%3Dc%26d%23e/mails?q=a%3Fb%3Dc%26d%23e",
            ),
            (
                json!("@evil.example"),
                "https://api.example/v1/users/%40evil.example/mails?q=%40evil.example",
            ),
            (
                json!(":8080"),
                "https://api.example/v1/users/%3A8080/mails?q=%3A8080",
            ),
            (
                json!("a\r\nHost: b"),
                "https://api.example/v1/users/a%0D%0AHost%3A%20b/mails?q=a%0D%0AHost%3A%20b",
            ),
            (json!("\t"), "https://api.example/v1/users/%09/mails?q=%09"),
            (
                json!("{{secret:KEY}}"),
                "https://api.example/v1/users/%7B%7Bsecret%3AKEY%7D%7D/mails?q=%7B%7Bsecret%3AKEY%7D%7D",
            ),
            (
                json!("ä💥"),
                "https://api.example/v1/users/%C3%A4%F0%9F%92%A5/mails?q=%C3%A4%F0%9F%92%A5",
            ),
            (
                json!([1, "a"]),
                "https://api.example/v1/users/%5B1%2C%22a%22%5D/mails?q=%5B1%2C%22a%22%5D",
            ),
        ] {
            let arguments = json!({"id": value, "q": value});
            assert_eq!(built(&call(template, &[]), &arguments).unwrap(), expected);
        }
    }

    #[test]
    fn rejects_arguments_that_would_change_the_path() {
        for (template, value) in [
            ("https://a.example/v1/{{id}}", json!("..")),
            ("https://a.example/v1/{{id}}", json!(".")),
            ("https://a.example/v1/{{id}}", json!("")),
            ("https://a.example/v1/{{id}}", json!(null)),
            ("https://a.example/v1/{{id}}/x", json!("..")),
            ("https://a.example/v1/{{id}}/x", json!(".")),
            ("https://a.example/v1/{{id}}/x", json!("")),
            ("https://a.example/{{id}}", json!("..")),
            ("https://a.example/v1/.{{id}}", json!(".")),
            ("https://a.example/v1/{{id}}{{id}}/x", json!(".")),
            ("https://a.example/v1/%2e{{id}}/x", json!(".")),
        ] {
            let refused = built(&call(template, &[]), &json!({"id": value}));
            assert!(refused.is_err(), "{template} {value}: {refused:?}");
        }
        let fine = call("https://a.example/v1/a{{id}}/x", &[]);
        assert_eq!(
            built(&fine, &json!({"id": ".."})).unwrap(),
            "https://a.example/v1/a../x"
        );
    }

    #[test]
    fn encodes_queries_and_omits_absent_arguments() {
        let call = call(
            "https://a.example/?fixed=1&in={{gone}}#part",
            &[
                ("a", "{{x}}"),
                ("b", "{{gone}}"),
                ("c", "v-{{gone}}-{{x}}"),
                ("d", "{{list}}"),
                ("e&=", "{{secret:KEY}}"),
                ("f", "{{deep.0.name}}"),
                ("g", "plain"),
            ],
        );
        let arguments = json!({"x": "1&2=3 ä", "list": ["a b", 2, null], "deep": [{"name": "n"}]});
        assert_eq!(
            built(&call, &arguments).unwrap(),
            "https://a.example/?fixed=1&in=&a=1%262%3D3+%C3%A4&c=v--1%262%3D3+%C3%A4&d=a+b&d=2&e%26%3D=s%2Fcret%26&f=n&g=plain"
        );
    }
}
