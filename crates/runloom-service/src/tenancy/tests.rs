//! What an administrator may rely on.

use super::fake::FakeTenancy;
use super::*;

fn service() -> TenancyService {
    let keys = Arc::new(KeyRing::new(b"master"));
    TenancyService::new(Arc::new(FakeTenancy::default()), keys, Arc::default())
}

async fn service_with_acme() -> TenancyService {
    let service = service();
    let put = PutWorkspace::default();
    service.put_workspace("acme", put, Millis(1)).await.unwrap();
    service
}

#[test]
fn slugs_are_checked() {
    for good in ["a", "acme", "0-9", "a-", &"a".repeat(63)] {
        assert!(is_slug(good), "{good}");
    }
    for bad in ["", "-a", "Acme", "a_b", "a b", "ä", "a/b", &"a".repeat(64)] {
        assert!(!is_slug(bad), "{bad}");
    }
}

#[tokio::test]
async fn every_violation_of_a_workspace_is_named() {
    let put = PutWorkspace {
        name: Some("  ".to_owned()),
        without: Some(vec!["apiKeys".to_owned(), "coffee".to_owned()]),
    };
    let error = service()
        .put_workspace("Acme", put, Millis(1))
        .await
        .unwrap_err();
    let Error::Invalid(issues) = error else {
        panic!("{error:?}");
    };
    let paths: Vec<_> = issues.iter().map(|issue| issue.path.as_str()).collect();
    assert_eq!(paths, ["slug", "name", "without[1]"]);
}

#[tokio::test]
async fn an_update_keeps_what_it_does_not_name() {
    let service = service_with_acme().await;
    let put = PutWorkspace {
        name: Some("Acme Inc".to_owned()),
        without: Some(vec!["oauthApps".to_owned()]),
    };
    service.put_workspace("acme", put, Millis(2)).await.unwrap();
    let row = service
        .put_workspace("acme", PutWorkspace::default(), Millis(3))
        .await
        .unwrap();
    assert_eq!((row.name.as_str(), row.without.len()), ("Acme Inc", 1));
    assert_eq!(service.list_workspaces().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_key_is_listed_without_its_secret_and_revoked_by_id_or_by_itself() {
    let service = service_with_acme().await;
    let create = CreateKey::default;
    let by_id = service
        .create_key("acme", create(), Millis(2))
        .await
        .unwrap();
    let by_key = service
        .create_key("acme", create(), Millis(2))
        .await
        .unwrap();
    assert!(!format!("{by_id:?}").contains(&by_id.key));
    let rows = service.list_keys("acme").await.unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].prefix, by_id.key[..15]);
    service
        .revoke_key("acme", by_id.id.as_str(), Millis(3))
        .await
        .unwrap();
    service
        .revoke_key("acme", &by_key.key, Millis(3))
        .await
        .unwrap();
    let rows = service.list_keys("acme").await.unwrap();
    assert!(rows.iter().all(|row| row.revoked_at == Some(Millis(3))));
}

#[tokio::test]
async fn foreign_and_unknown_keys_are_not_found() {
    let service = service_with_acme().await;
    let put = PutWorkspace::default();
    service
        .put_workspace("other", put, Millis(1))
        .await
        .unwrap();
    let made = service
        .create_key("acme", CreateKey::default(), Millis(2))
        .await
        .unwrap();
    for name in [
        made.id.as_str(),
        &made.key,
        "key_nobody",
        "mantyx_nobody",
        "?",
    ] {
        let error = service
            .revoke_key("other", name, Millis(3))
            .await
            .unwrap_err();
        assert!(
            matches!(error, Error::NotFound { what: "API key" }),
            "{name}: {error:?}"
        );
    }
    let error = service.list_keys("nobody").await.unwrap_err();
    assert!(matches!(error, Error::NotFound { what: "workspace" }));
}

#[tokio::test]
async fn a_declared_key_is_kept_in_step_and_not_doubled() {
    let service = service_with_acme().await;
    let key = "mantyx_chosen_by_the_operator";
    let first = service.ensure_key("acme", key, CreateKey::default(), Millis(1));
    let first = first.await.unwrap();
    let limited = CreateKey {
        runs_per_minute: Some(7),
        ..CreateKey::default()
    };
    let second = service
        .ensure_key("acme", key, limited, Millis(2))
        .await
        .unwrap();
    assert_eq!(first, second);
    let rows = service.list_keys("acme").await.unwrap();
    assert_eq!((rows.len(), rows[0].runs_per_minute), (1, Some(7)));
}

#[tokio::test]
async fn what_does_not_look_like_a_key_is_refused_without_repeating_it() {
    let service = service_with_acme().await;
    for bad in [
        "sk-12345678901",
        "mantyx_1234567",
        "mantyx_with space12",
        "mantyx_at_12345678",
    ] {
        let error = service
            .ensure_key("acme", bad, CreateKey::default(), Millis(1))
            .await
            .unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{bad}: {error:?}");
        assert!(!error.to_string().contains(bad));
    }
}
