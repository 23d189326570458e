//! Tests of the catalog.

use async_trait::async_trait;

use super::*;
use runloom_ports::model::{Capabilities, ModelError, ModelRequest, ModelStream};
use runloom_protocol::outcome::ErrorClass;

#[derive(Debug)]
struct Silent;

#[async_trait]
impl Model for Silent {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    async fn call(&self, _request: ModelRequest) -> Result<ModelStream, ModelError> {
        Err(ModelError::new(ErrorClass::Server, "silent"))
    }
}

/// The provider `oa`, which runs every model.
#[derive(Debug)]
struct Anything;

impl UnlistedModels for Anything {
    fn provider_id(&self) -> &'static str {
        "oa"
    }

    fn open(&self, vendor_model_id: &str) -> Result<Arc<CatalogModel>> {
        Ok(own("oa", "openai", vendor_model_id))
    }
}

fn model(id: String, provider_id: &str, kind: &str, vendor: &str) -> Arc<CatalogModel> {
    let platform = id.starts_with("platform:");
    Arc::new(CatalogModel {
        id,
        label: vendor.to_owned(),
        provider_id: provider_id.to_owned(),
        provider: kind.to_owned(),
        vendor_model_id: vendor.to_owned(),
        source: if platform {
            Source::PlatformOffering
        } else {
            Source::WorkspaceProvider
        },
        context_window: None,
        pricing: None,
        reasoning: false,
        max_output_tokens: None,
        model: Arc::new(Silent),
    })
}

fn own(provider_id: &str, kind: &str, vendor: &str) -> Arc<CatalogModel> {
    let id = CatalogModel::workspace_id(provider_id, vendor);
    model(id, provider_id, kind, vendor)
}

fn catalog(default: Option<&str>) -> Catalog {
    let acme = WorkspaceModels {
        models: vec![
            own("oa", "openai", "gpt-5.5"),
            own("oa", "openai", "gpt-5.5-mini"),
            own("ant", "anthropic", "claude-sonnet-5"),
            own("or", "openai-compatible", "meta/llama-4:free"),
            own("eu", "azure-openai", "shared"),
            own("us", "azure-openai", "shared"),
        ],
        unlisted: vec![Arc::new(Anything)],
        default: default.map(str::to_owned),
    };
    Catalog {
        platform: vec![
            model(CatalogModel::platform_id("demo"), "demo", "demo", "demo"),
            model(
                CatalogModel::platform_id("fast"),
                "fast",
                "openai",
                "gpt-5.5",
            ),
        ],
        workspaces: HashMap::from([("acme".to_owned(), acme)]),
    }
}

fn refused(result: Result<Arc<CatalogModel>>) -> Vec<String> {
    match result {
        Err(Error::InvalidModel { candidates, .. }) => candidates,
        other => panic!("expected invalid_model, got {other:?}"),
    }
}

#[test]
fn every_form_of_a_name_finds_its_model() {
    let catalog = catalog(Some("oa/gpt-5.5"));
    for (name, id) in [
        ("provider:oa:gpt-5.5", "provider:oa:gpt-5.5"),
        ("platform:demo", "platform:demo"),
        ("platform:fast", "platform:fast"),
        ("provider:ant", "provider:ant:claude-sonnet-5"),
        ("provider:oa", "provider:oa:gpt-5.5"),
        (
            "provider:or:meta/llama-4:free",
            "provider:or:meta/llama-4:free",
        ),
        ("oa/gpt-5.5-mini", "provider:oa:gpt-5.5-mini"),
        ("oa:gpt-5.5-mini", "provider:oa:gpt-5.5-mini"),
        ("openai/gpt-5.5", "provider:oa:gpt-5.5"),
        ("openai:gpt-5.5", "provider:oa:gpt-5.5"),
        ("anthropic/claude-sonnet-5", "provider:ant:claude-sonnet-5"),
        (
            "openai-compatible/meta/llama-4:free",
            "provider:or:meta/llama-4:free",
        ),
        ("meta/llama-4:free", "provider:or:meta/llama-4:free"),
        ("claude-sonnet-5", "provider:ant:claude-sonnet-5"),
        ("gpt-5.5", "provider:oa:gpt-5.5"),
        ("eu/shared", "provider:eu:shared"),
        ("demo", "platform:demo"),
        ("demo/demo", "platform:demo"),
    ] {
        let found = catalog.resolve("acme", Some(name)).unwrap();
        assert_eq!(found.id, id, "{name}");
    }
}

#[test]
fn without_a_name_the_default_then_the_first() {
    let id = |catalog: &Catalog, slug| catalog.resolve(slug, None).unwrap().id.clone();
    assert_eq!(
        id(&catalog(Some("ant/claude-sonnet-5")), "acme"),
        "provider:ant:claude-sonnet-5"
    );
    assert_eq!(id(&catalog(None), "acme"), "provider:oa:gpt-5.5");
    assert_eq!(id(&catalog(None), "unconfigured"), "platform:demo");
    assert!(refused(Catalog::default().resolve("acme", None)).is_empty());
}

#[test]
fn a_workspace_does_not_see_the_models_of_another() {
    let catalog = catalog(None);
    assert_eq!(
        catalog.resolve("other", Some("gpt-5.5")).unwrap().id,
        "platform:fast"
    );
    refused(catalog.resolve("other", Some("claude-sonnet-5")));
    assert_eq!(catalog.list("other").models.len(), 2);
}

#[test]
fn ambiguous_names_are_refused_with_what_they_may_mean() {
    let catalog = catalog(None);
    for name in ["shared", "azure-openai/shared"] {
        assert_eq!(
            refused(catalog.resolve("acme", Some(name))),
            ["provider:eu:shared", "provider:us:shared"],
            "{name}"
        );
    }
    assert_eq!(
        refused(catalog.resolve("acme", Some("provider:oa"))),
        ["provider:oa:gpt-5.5", "provider:oa:gpt-5.5-mini"]
    );
}

#[test]
fn a_default_does_not_decide_between_two_providers_of_a_vendor_model() {
    let catalog = catalog(Some("eu/shared"));
    for name in ["shared", "azure-openai/shared"] {
        assert_eq!(
            refused(catalog.resolve("acme", Some(name))),
            ["provider:eu:shared", "provider:us:shared"],
            "{name}"
        );
    }
}

#[test]
fn a_provider_runs_a_model_that_the_catalog_does_not_list() {
    let catalog = catalog(None);
    let id = "provider:oa:ft:gpt-5.5:acme::x1";
    assert_eq!(catalog.resolve("acme", Some(id)).unwrap().id, id);
    assert!(
        catalog
            .list("acme")
            .models
            .iter()
            .all(|listed| listed.id != id)
    );
    for other in ["provider:ant:claude-9", "oa/gpt-9", "gpt-9"] {
        refused(catalog.resolve("acme", Some(other)));
    }
    refused(catalog.resolve("other", Some(id)));
}

#[test]
fn unknown_names_offer_near_models_or_all() {
    let catalog = catalog(None);
    let near = refused(catalog.resolve("acme", Some("claude-sonet-5")));
    assert_eq!(near, ["provider:ant:claude-sonnet-5"]);
    let near = refused(catalog.resolve("acme", Some("Platform:Demo")));
    assert_eq!(near[0], "platform:demo");
    let near = refused(catalog.resolve("acme", Some("gpt-5")));
    assert!(near.contains(&"provider:oa:gpt-5.5".to_owned()));
    assert!(near.len() <= 5);
    for far in ["", "zzzzzzzzzzzzzz", &"x".repeat(100_000)] {
        let all = refused(catalog.resolve("acme", Some(far)));
        assert_eq!(all.len(), CANDIDATES_MAX, "{all:?}");
    }
}

#[test]
fn a_default_that_is_gone_is_an_error_and_not_another_model() {
    let catalog = catalog(Some("oa/gone"));
    refused(catalog.resolve("acme", None));
    assert_eq!(catalog.list("acme").default_model_id, None);
}

#[test]
fn the_list_shows_own_models_first_and_the_default() {
    let list = catalog(Some("oa/gpt-5.5")).list("acme");
    let ids: Vec<_> = list.models.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids[0], "provider:oa:gpt-5.5");
    assert_eq!(ids[ids.len() - 1], "platform:fast");
    assert_eq!(
        list.default_model_id.as_deref(),
        Some("provider:oa:gpt-5.5")
    );
}
