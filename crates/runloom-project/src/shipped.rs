//! The modules that come with the server: `calendar`, `contacts`, `memory`.

use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value};

use crate::input::InputIssue;
use crate::module::{Module, ModuleTexts};
use crate::time::{EpochMillis, datetime};

/// Longest range of `calendar.read`.
const RANGE_MAX_MILLIS: EpochMillis = 366 * 24 * 3_600_000;

macro_rules! texts {
    ($module:literal: $($method:literal),+) => {
        ModuleTexts {
            index: include_str!(concat!("../modules/", $module, "/index.md")).to_owned(),
            cards: [$((
                $method.to_owned(),
                include_str!(concat!("../modules/", $module, "/", $method, ".md")).to_owned(),
            )),+]
            .into(),
        }
    };
}

macro_rules! shipped {
    ($module:literal: $($method:literal),+) => {
        Module::shipped(
            include_str!(concat!("../modules/", $module, "/module.json")),
            texts!($module: $($method),+),
        )
    };
}

static MODULES: LazyLock<Vec<Arc<Module>>> = LazyLock::new(|| {
    let read = [
        shipped!("calendar": "read", "create", "update", "delete", "share", "accept_invite", "reject_invite"),
        shipped!("contacts": "read"),
        shipped!("memory": "update", "read"),
    ];
    let modules = read.into_iter().filter_map(Result::ok);
    modules
        .map(|module| Arc::new(with_cross_checks(module)))
        .collect()
});

/// The shipped modules.
#[must_use]
pub fn modules() -> Vec<Arc<Module>> {
    MODULES.clone()
}

/// A shipped module.
#[must_use]
pub fn module(name: &str) -> Option<&'static Arc<Module>> {
    MODULES.iter().find(|module| module.name == name)
}

fn with_cross_checks(mut module: Module) -> Module {
    if module.name == "calendar" {
        for method in &mut module.methods {
            if matches!(method.name.as_str(), "read" | "create" | "update") {
                method.input = method.input.clone().with_cross_check(check_times);
            }
        }
    }
    module
}

/// The end is after the start, and a range of `read` is at most a year.
fn check_times(input: &Map<String, Value>) -> Vec<InputIssue> {
    let time = |key: &str| input.get(key).and_then(Value::as_str).and_then(datetime);
    let (Some(start), Some(end)) = (time("start_at"), time("end_at")) else {
        return Vec::new();
    };
    let message = if end <= start {
        "must be after start_at"
    } else if input.contains_key("mode") && end - start > RANGE_MAX_MILLIS {
        "must be at most 366 days after start_at"
    } else {
        return Vec::new();
    };
    vec![InputIssue {
        path: "end_at".to_owned(),
        message: message.to_owned(),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use runloom_ports::effect::Effect;
    use serde_json::json;

    #[test]
    fn every_shipped_module_is_usable() {
        for read in [
            shipped!("calendar": "read", "create", "update", "delete", "share", "accept_invite", "reject_invite"),
            shipped!("contacts": "read"),
            shipped!("memory": "update", "read"),
        ] {
            read.unwrap();
        }
        let names: Vec<&str> = MODULES.iter().map(|module| module.name.as_str()).collect();
        assert_eq!(names, crate::SHIPPED);
        for method in MODULES.iter().flat_map(|module| &module.methods) {
            let expected = if method.name == "read" {
                Effect::Read
            } else {
                Effect::Idempotent
            };
            assert_eq!(method.effect, expected, "{}", method.name);
            assert!(method.card.contains("\"module\""), "{}", method.name);
        }
    }

    #[test]
    fn times_that_contradict_each_other_are_refused() {
        let calendar = module("calendar").unwrap();
        let issues =
            |method: &str, input: Value| calendar.method(method).unwrap().input.issues(&input);
        let (one, two) = ("2026-04-21T10:00:00Z", "2026-04-21T12:00:00+08:00");
        let backwards = issues(
            "create",
            json!({"title": "x", "start_at": one, "end_at": two}),
        );
        assert_eq!(backwards[0].path, "end_at");
        let long = json!({"mode": "range", "start_at": one, "end_at": "2028-04-21T10:00:00Z"});
        assert_eq!(issues("read", long)[0].path, "end_at");
        assert!(issues("update", json!({"event_id": "e", "end_at": two})).is_empty());
        assert_eq!(issues("update", json!({"event_id": "e"})).len(), 1);
    }
}
