//! The URL of a call: arguments fill places in it and never change its shape.

use runloom_protocol::definition::HttpCall;
use runloom_protocol::definition::template::Piece;

use reqwest::Url;
use serde_json::Value;

use super::fill::{Filling, Result, as_text, pieces, sole_argument};
use crate::escape;

/// The URL with everything filled in.
pub(super) fn build(call: &HttpCall, filling: &Filling<'_>) -> Result<Url> {
    let mut url = template(&call.url, filling)?;
    url.set_fragment(None);
    for (name, text) in &call.query {
        match sole_argument(text).map(|path| filling.argument(path)) {
            Some(None) => {}
            // Lists are written as the same name several times, which nearly every server reads.
            Some(Some(Value::Array(items))) => {
                for item in items.iter().filter(|item| !item.is_null()) {
                    url.query_pairs_mut().append_pair(name, &as_text(item));
                }
            }
            _ => {
                let filled = filling.fill(text, |_, value| Ok(value.to_owned()))?;
                if !filled.is_vacant {
                    url.query_pairs_mut().append_pair(name, &filled.text);
                }
            }
        }
    }
    Ok(url)
}

fn template(text: &str, filling: &Filling<'_>) -> Result<Url> {
    let (mut filled, mut shape) = (String::new(), String::new());
    for piece in pieces(text)? {
        let value = match piece {
            Piece::Text(text) => {
                filled.push_str(text);
                shape.push_str(text);
                continue;
            }
            Piece::Secret(name) => filling.secret(name)?.to_owned(),
            Piece::Argument(path) => match filling.argument(path) {
                Some(value) => as_text(value).into_owned(),
                None if shape.contains('?') => String::new(),
                None => return Err(format!("the argument `{path}` is missing")),
            },
        };
        filled.push_str(&escape::percent(&value));
        shape.push('x');
    }
    let parse =
        |text: &str| Url::parse(text).map_err(|error| format!("the tool's URL is wrong ({error})"));
    if filled == shape {
        return parse(&filled);
    }
    let (filled, shape) = (parse(&filled)?, parse(&shape)?);
    if is_alike(&filled, &shape) {
        return Ok(filled);
    }
    Err("an argument is empty or made of dots, which would make the URL another one".to_owned())
}

/// Percent-encoding leaves dots alone, and parsers resolve `.` and `..` however they are spelt: what was parsed is compared with
/// the same template filled with a letter.
fn is_alike(filled: &Url, shape: &Url) -> bool {
    let segments = |url: &Url| -> Vec<String> {
        let segments = url.path_segments().into_iter().flatten();
        segments.map(str::to_owned).collect()
    };
    let place = |url: &Url| {
        let host = url.host_str().map(str::to_owned);
        (url.scheme().to_owned(), host, url.port())
    };
    let (own, expected) = (segments(filled), segments(shape));
    place(filled) == place(shape)
        && filled.query_pairs().count() == shape.query_pairs().count()
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
    use crate::action::Secrets;

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
        let secrets = Secrets::of(&[("KEY", "s/cret&")]);
        let filling = Filling {
            arguments: arguments.as_object().unwrap(),
            secrets: &secrets,
        };
        build(call, &filling).map(String::from)
    }

    #[test]
    fn hostile_arguments_stay_in_their_place() {
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
    fn arguments_that_would_change_the_path_are_refused() {
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
    fn queries_are_encoded_and_absent_arguments_left_out() {
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
