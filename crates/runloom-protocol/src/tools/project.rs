//! The project tool, by reference.

use serde::{Deserialize, Serialize};

use crate::check::names::{Names, Namespace};
use crate::limits;
use crate::read::{Excerpt, Fields};

/// The model-facing name of the project tool.
pub const PROJECT_TOOL: &str = "project_cli";

/// `kind: "project"`: what of the workspace's project a run may use.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProjectToolRef {
    /// Actions `module.method` or `module.*`; the whole router when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// Modules whose index cards the model sees; when absent, those of which `allow` names something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled_skills: Option<Vec<String>>,
}

/// An entry of `allow`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActionPattern<'p> {
    /// The module.
    pub module: &'p str,
    /// The method; `None` for all of them.
    pub method: Option<&'p str>,
}

impl<'p> ActionPattern<'p> {
    /// Reads `module.method` or `module.*`.
    #[must_use]
    pub fn parse(text: &'p str) -> Option<Self> {
        let (module, method) = text.split_once('.')?;
        let method = (method != "*").then_some(method);
        (is_project_name(module) && method.is_none_or(is_project_name))
            .then_some(Self { module, method })
    }

    /// Whether it names the action.
    #[must_use]
    pub fn names(self, module: &str, method: &str) -> bool {
        self.module == module && self.method.is_none_or(|named| named == method)
    }
}

/// Whether a text names a module or a method: `^[a-z][a-z0-9_]{0,31}$`.
#[must_use]
pub fn is_project_name(text: &str) -> bool {
    let rest = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    text.len() <= limits::PROJECT_NAME_MAX_CHARS
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(rest)
}

impl ProjectToolRef {
    pub(super) fn read<'v>(fields: &Fields<'v, '_>, names: &mut Names<'v>) -> Option<Self> {
        let kind = fields.require("kind")?;
        names.claim(Namespace::ModelFacing, PROJECT_TOOL, &kind);
        let max = limits::PROJECT_ALLOW_MAX;
        let allow = fields.list("allow", max, |node| {
            let text = node.string()?;
            if ActionPattern::parse(text).is_none() {
                let wanted = "expected `module.method` or `module.*`";
                node.refuse(format_args!("{wanted}, got `{}`", Excerpt(text)));
                return None;
            }
            Some(text.to_owned())
        });
        let enabled_skills = fields.list("enabledSkills", limits::PROJECT_MODULES_MAX, |node| {
            let text = node.string()?;
            if !is_project_name(text) {
                node.refuse(format_args!(
                    "expected the name of a module, got `{}`",
                    Excerpt(text)
                ));
                return None;
            }
            Some(text.to_owned())
        });
        Some(Self {
            allow,
            enabled_skills,
        })
    }

    /// The ref of a request over that of its agent or session: what both allow, and the request's skills if it has any.
    #[must_use]
    pub fn over(self, below: &Self) -> Self {
        let allow = match (self.allow, &below.allow) {
            (Some(own), Some(other)) => Some(intersection(&own, other)),
            (own, other) => own.or_else(|| other.clone()),
        };
        Self {
            allow,
            enabled_skills: self.enabled_skills.or_else(|| below.enabled_skills.clone()),
        }
    }
}

/// The patterns that name what both lists name.
fn intersection(one: &[String], two: &[String]) -> Vec<String> {
    let mut both = Vec::new();
    for (first, second) in one
        .iter()
        .flat_map(|first| two.iter().map(move |second| (first, second)))
    {
        let (Some(a), Some(b)) = (ActionPattern::parse(first), ActionPattern::parse(second)) else {
            continue;
        };
        let narrower = match (a.method, b.method) {
            _ if a.module != b.module => continue,
            (_, None) => first,
            (None, Some(_)) => second,
            (Some(x), Some(y)) if x == y => first,
            _ => continue,
        };
        if !both.contains(narrower) {
            both.push(narrower.clone());
        }
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(allow: Option<&[&str]>, skills: Option<&[&str]>) -> ProjectToolRef {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        ProjectToolRef {
            allow: allow.map(texts),
            enabled_skills: skills.map(texts),
        }
    }

    #[test]
    fn a_request_narrows_what_its_agent_allows() {
        for (own, agent, expected) in [
            (None, None, None),
            (None, Some(&["a.*"][..]), Some(&["a.*"][..])),
            (Some(&["a.x"][..]), None, Some(&["a.x"][..])),
            (
                Some(&["a.*", "b.x"]),
                Some(&["a.x", "a.y", "b.*"]),
                Some(&["a.x", "a.y", "b.x"]),
            ),
            (Some(&["a.*"]), Some(&["b.*"]), Some(&[])),
            (Some(&[]), Some(&["b.*"]), Some(&[])),
        ] {
            let merged = with(own, None).over(&with(agent, None));
            assert_eq!(merged, with(expected, None), "{own:?} {agent:?}");
        }
        let skills = with(None, Some(&["a"])).over(&with(None, Some(&["b"])));
        assert_eq!(skills, with(None, Some(&["a"])));
        assert_eq!(
            with(None, None).over(&with(None, Some(&["b"]))),
            with(None, Some(&["b"]))
        );
    }
}
