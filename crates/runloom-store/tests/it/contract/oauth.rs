//! Users, OAuth apps and grants.

use runloom_ports::store::{
    CODES_MAX, Consent, GRANTS_MAX, GrantFilter, Millis, NewCode, NewGrant, NewToken, PutApp,
    Store, TOKENS_MAX, UserChange, WorkspaceNo,
};
use runloom_protocol::id::{GrantId, UserId};
use runloom_protocol::scope::ScopeSet;

use crate::fixture::{Fixture, NOW};

const APP: &str = "mantyx_oa_one";

fn scopes() -> ScopeSet {
    ScopeSet::parse("runs:read runs:write").unwrap()
}

fn put_app(workspace: WorkspaceNo, client_id: &str) -> PutApp {
    PutApp {
        client_id: client_id.to_owned(),
        workspace,
        name: "One".to_owned(),
        secret: Some([7; 32]),
        public: false,
        redirect_uris: vec!["https://one.example/cb".to_owned()],
        scopes: scopes(),
        client_credentials: true,
    }
}

fn put_user(email: &str, workspaces: &[WorkspaceNo]) -> UserChange {
    UserChange {
        id: UserId::from_suffix(email.split('@').next().unwrap()),
        email: email.to_owned(),
        name: Some("Ada\0".to_owned()),
        password: Some("$argon2id$1".to_owned()),
        workspaces: Some(workspaces.to_vec()),
    }
}

fn ada() -> UserId {
    UserId::from_suffix("ada")
}

fn code(workspace: WorkspaceNo, number: u8) -> NewCode {
    NewCode {
        prefix: "mantyx_ac_12345678".to_owned(),
        hash: [number; 32],
        consent: Consent {
            client_id: APP.to_owned(),
            person: ada(),
            workspace,
            redirect_uri: "https://one.example/cb".to_owned(),
            challenge: "challenge".to_owned(),
            scopes: scopes(),
            agent_ids: vec!["agent_1".to_owned()],
        },
        expires_at: Millis(NOW.0 + 600),
    }
}

fn grant(workspace: WorkspaceNo, name: &str, refresh: u8) -> NewGrant {
    NewGrant {
        id: GrantId::from_suffix(name),
        client_id: APP.to_owned(),
        person: Some(ada()),
        workspace,
        scopes: scopes(),
        agent_ids: vec!["agent_1".to_owned()],
        refresh: Some(("mantyx_rt_12345678".to_owned(), [refresh; 32])),
        created_at: NOW,
    }
}

fn token(grant: &str, number: u8) -> NewToken {
    NewToken {
        prefix: "mantyx_at_12345678".to_owned(),
        hash: [number; 32],
        grant: GrantId::from_suffix(grant),
        scopes: ScopeSet::parse("runs:read").unwrap(),
        created_at: NOW,
        expires_at: Millis(NOW.0 + i64::from(number)),
    }
}

/// An app of acme and a person there, who has allowed it something.
async fn granted(fixture: &Fixture) {
    let store = fixture.store();
    assert!(
        store
            .put_app(put_app(fixture.acme, APP), NOW)
            .await
            .unwrap()
    );
    let ada = put_user("ada@example.com", &[fixture.acme]);
    store.put_user(ada, NOW).await.unwrap().unwrap();
    store.put_code(code(fixture.acme, 1)).await.unwrap();
    let redeemed = store
        .redeem_code([1; 32], grant(fixture.acme, "g", 1), token("g", 1))
        .await;
    assert!(redeemed.unwrap());
}

async fn tokens(store: &dyn Store) -> usize {
    let found = store.tokens_by_prefix("mantyx_at_12345678").await;
    found.unwrap().len()
}

pub(crate) async fn a_person_put_again_is_changed_where_something_is_given(fixture: Fixture) {
    let store = fixture.store();
    let stranger = UserChange {
        password: None,
        ..put_user("eve@example.com", &[])
    };
    assert!(store.put_user(stranger, NOW).await.unwrap().is_none());
    let all = [fixture.rival, fixture.acme];
    let first = store.put_user(put_user("ada@example.com", &all), NOW).await;
    let first = first.unwrap().unwrap();
    assert_eq!((first.id.clone(), first.name.as_str()), (ada(), "Ada\0"));
    let slugs: Vec<_> = first.workspaces.iter().map(|row| &row.slug).collect();
    assert_eq!(slugs, ["acme", "rival"]);
    let change = UserChange {
        id: UserId::from_suffix("another"),
        email: "ada@example.com".to_owned(),
        name: None,
        password: Some("$argon2id$2".to_owned()),
        workspaces: None,
    };
    let later = Millis(NOW.0 + 5);
    let changed = store.put_user(change, later).await.unwrap().unwrap();
    assert_eq!(
        (changed.id.clone(), changed.name.as_str()),
        (ada(), "Ada\0")
    );
    assert_eq!(changed.password, "$argon2id$2");
    assert_eq!((changed.password_at, changed.created_at), (later, NOW));
    assert_eq!(changed.workspaces.len(), 2);
    let found = store.user_by_email("ada@example.com").await.unwrap();
    assert_eq!(found, store.user(&ada()).await.unwrap());
    assert_eq!(store.users().await.unwrap(), [found.unwrap()]);
}

pub(crate) async fn an_app_is_its_workspaces_and_keeps_its_secret(mut fixture: Fixture) {
    let store = fixture.store();
    let no_secret = PutApp {
        secret: None,
        ..put_app(fixture.acme, APP)
    };
    assert!(!store.put_app(no_secret.clone(), NOW).await.unwrap());
    assert!(
        store
            .put_app(put_app(fixture.acme, APP), NOW)
            .await
            .unwrap()
    );
    let stolen = put_app(fixture.rival, APP);
    assert!(!store.put_app(stolen, NOW).await.unwrap());
    let changed = PutApp {
        name: "Two".to_owned(),
        public: true,
        client_credentials: false,
        ..no_secret
    };
    assert!(store.put_app(changed, NOW).await.unwrap());
    drop(store);
    fixture.reopen().await;
    let store = fixture.store();
    let app = store.app(APP).await.unwrap().unwrap();
    assert_eq!((app.name.as_str(), app.secret), ("Two", [7; 32]));
    assert_eq!((app.public, app.client_credentials), (true, false));
    assert_eq!((app.workspace, app.scopes), (fixture.acme, scopes()));
    assert_eq!(app.redirect_uris, ["https://one.example/cb"]);
    assert_eq!(store.apps(fixture.acme).await.unwrap(), [app]);
    assert!(store.apps(fixture.rival).await.unwrap().is_empty());
    assert!(!store.delete_app(fixture.rival, APP).await.unwrap());
    assert!(store.delete_app(fixture.acme, APP).await.unwrap());
    assert!(store.app(APP).await.unwrap().is_none());
}

pub(crate) async fn a_code_is_redeemed_once(fixture: Fixture) {
    granted(&fixture).await;
    let store = fixture.store();
    let again = grant(fixture.acme, "h", 2);
    let again = store.redeem_code([1; 32], again, token("h", 2)).await;
    assert!(!again.unwrap());
    let codes = store.codes_by_prefix("mantyx_ac_12345678").await.unwrap();
    assert_eq!(codes.len(), 1);
    assert_eq!(codes[0].consent, code(fixture.acme, 1).consent);
    assert_eq!(codes[0].grant, Some(GrantId::from_suffix("g")));
    let found = store.tokens_by_prefix("mantyx_at_12345678").await.unwrap();
    assert_eq!(found.len(), 1);
    let (token, grant) = (&found[0], &found[0].grant);
    assert_eq!((token.hash, token.expires_at), ([1; 32], Millis(NOW.0 + 1)));
    assert_eq!(token.scopes.to_string(), "runs:read");
    assert_eq!(grant.scopes, scopes());
    assert_eq!(grant.person, Some((ada(), "ada@example.com".to_owned())));
    assert_eq!(
        (grant.workspace.slug.as_str(), grant.refresh),
        ("acme", Some([1; 32]))
    );
    assert_eq!(grant.agent_ids, ["agent_1"]);
    assert_eq!(grant.app.client_id, APP);
    let by_refresh = store.grants_by_prefix("mantyx_rt_12345678").await.unwrap();
    assert_eq!(by_refresh, std::slice::from_ref(grant));
}

pub(crate) async fn who_has_left_allows_nothing_any_more(fixture: Fixture) {
    granted(&fixture).await;
    let store = fixture.store();
    let leaves = put_user("ada@example.com", &[fixture.rival]);
    store.put_user(leaves, NOW).await.unwrap();
    assert!(!store.put_code(code(fixture.acme, 2)).await.unwrap());
    let late = grant(fixture.acme, "h", 2);
    let late = store.redeem_code([2; 32], late, token("h", 2)).await;
    assert!(!late.unwrap());
    let codes = store.codes_by_prefix("mantyx_ac_12345678").await.unwrap();
    assert_eq!(codes, []);
    assert_eq!(tokens(&*store).await, 0);
    assert!(store.put_code(code(fixture.rival, 3)).await.unwrap());
}

pub(crate) async fn leaving_wins_against_a_yes_at_the_same_time(fixture: Fixture) {
    granted(&fixture).await;
    let store = fixture.store();
    for number in 2..20 {
        let stays = put_user("ada@example.com", &[fixture.acme]);
        store.put_user(stays, NOW).await.unwrap();
        let says_yes = async {
            store.put_code(code(fixture.acme, number)).await.unwrap();
            let name = format!("g{number}");
            let new = grant(fixture.acme, &name, number);
            let redeemed = store.redeem_code([number; 32], new, token(&name, number));
            redeemed.await.unwrap();
        };
        let leaves = put_user("ada@example.com", &[fixture.rival]);
        let (_, left) = tokio::join!(says_yes, store.put_user(leaves, NOW));
        left.unwrap();
        let grants = store.grants(GrantFilter::default(), 10).await.unwrap();
        assert_eq!(grants, [], "{number}");
        let codes = store.codes_by_prefix("mantyx_ac_12345678").await.unwrap();
        assert_eq!(codes, [], "{number}");
    }
}

pub(crate) async fn the_oldest_codes_that_nobody_redeemed_give_way(fixture: Fixture) {
    granted(&fixture).await;
    let store = fixture.store();
    let last = u8::try_from(CODES_MAX).unwrap() + 5;
    for number in 2..=last {
        let new = NewCode {
            expires_at: Millis(NOW.0 + i64::from(number)),
            ..code(fixture.acme, number)
        };
        assert!(store.put_code(new).await.unwrap());
    }
    let codes = store.codes_by_prefix("mantyx_ac_12345678").await.unwrap();
    let used = codes.iter().filter(|code| code.grant.is_some()).count();
    assert_eq!((codes.len(), used), (CODES_MAX + 1, 1));
    for (number, there) in [(5, false), (6, true), (last, true)] {
        let found = codes.iter().any(|code| code.hash == [number; 32]);
        assert_eq!(found, there, "{number}");
    }
}

pub(crate) async fn tokens_go_alone_and_with_their_grant(fixture: Fixture) {
    granted(&fixture).await;
    let store = fixture.store();
    assert!(store.put_token(token("g", 2)).await.unwrap());
    assert!(!store.put_token(token("gone", 3)).await.unwrap());
    assert!(store.delete_token([1; 32]).await.unwrap());
    assert!(!store.delete_token([1; 32]).await.unwrap());
    assert_eq!(tokens(&*store).await, 1);
    let g = GrantId::from_suffix("g");
    assert!(store.delete_grant(&g).await.unwrap());
    assert!(!store.delete_grant(&g).await.unwrap());
    assert_eq!(tokens(&*store).await, 0);
}

pub(crate) async fn an_app_that_acts_for_itself_has_one_grant(fixture: Fixture) {
    granted(&fixture).await;
    let store = fixture.store();
    let own = |name: &str, words: &str| NewGrant {
        person: None,
        refresh: None,
        scopes: ScopeSet::parse(words).unwrap(),
        ..grant(fixture.acme, name, 0)
    };
    let first = store.put_own_grant(own("one", "runs:read")).await.unwrap();
    let second = store.put_own_grant(own("two", "runs:write")).await.unwrap();
    assert_eq!((first.as_str(), &second), ("grant_one", &first));
    let filter = GrantFilter {
        id: Some(first),
        ..GrantFilter::default()
    };
    let found = store.grants(filter, 10).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].person, None);
    assert_eq!(found[0].scopes.to_string(), "runs:write");
}

pub(crate) async fn grants_are_found_by_what_they_concern(fixture: Fixture) {
    granted(&fixture).await;
    let store = fixture.store();
    let of = async |filter: GrantFilter| store.grants(filter, 10).await.unwrap().len();
    let all = GrantFilter::default;
    assert_eq!(of(all()).await, 1);
    for (workspace, count) in [(fixture.acme, 1), (fixture.rival, 0)] {
        let workspace = Some(workspace);
        assert_eq!(of(GrantFilter { workspace, ..all() }).await, count);
    }
    for (app, count) in [(APP, 1), ("mantyx_oa_two", 0)] {
        let filter = GrantFilter {
            client_id: Some(app.to_owned()),
            person: Some(ada()),
            workspace: Some(fixture.acme),
            ..all()
        };
        assert_eq!(of(filter).await, count);
    }
}

pub(crate) async fn what_somebody_allowed_goes_with_them(mut fixture: Fixture) {
    granted(&fixture).await;
    let store = fixture.store();
    store.put_code(code(fixture.acme, 2)).await.unwrap();
    let stays = put_user("ada@example.com", &[fixture.acme, fixture.rival]);
    store.put_user(stays, NOW).await.unwrap();
    assert_eq!(tokens(&*store).await, 1);
    let leaves = put_user("ada@example.com", &[fixture.rival]);
    store.put_user(leaves, NOW).await.unwrap();
    assert_eq!(tokens(&*store).await, 0);
    let redeemed = store
        .redeem_code([2; 32], grant(fixture.acme, "h", 2), token("h", 2))
        .await;
    assert!(!redeemed.unwrap());
    store.put_code(code(fixture.rival, 3)).await.unwrap();
    assert!(store.delete_user(&ada()).await.unwrap());
    assert!(!store.delete_user(&ada()).await.unwrap());
    drop(store);
    for table in [
        "people",
        "memberships",
        "oauth_codes",
        "oauth_grants",
        "oauth_tokens",
    ] {
        assert_eq!(fixture.rows(table).await, 0, "{table}");
    }
}

pub(crate) async fn the_oldest_grants_and_tokens_give_way(fixture: Fixture) {
    granted(&fixture).await;
    let store = fixture.store();
    for number in 0..=TOKENS_MAX {
        let number = u8::try_from(number + 100).unwrap();
        assert!(store.put_token(token("g", number)).await.unwrap());
    }
    assert_eq!(tokens(&*store).await, TOKENS_MAX);
    assert!(!store.delete_token([1; 32]).await.unwrap());
    for number in 0..GRANTS_MAX {
        let number = u8::try_from(number + 2).unwrap();
        store.put_code(code(fixture.acme, number)).await.unwrap();
        let name = format!("g{number}");
        let new = grant(fixture.acme, &name, number);
        let first = NewToken {
            prefix: "mantyx_at_elsewhere".to_owned(),
            ..token(&name, number)
        };
        assert!(store.redeem_code([number; 32], new, first).await.unwrap());
    }
    let grants = store.grants(GrantFilter::default(), 1000).await.unwrap();
    assert_eq!(grants.len(), GRANTS_MAX);
    assert_eq!(tokens(&*store).await, 0);
}

pub(crate) async fn what_has_expired_is_purged_a_page_at_a_time(mut fixture: Fixture) {
    granted(&fixture).await;
    let store = fixture.store();
    for number in 2..=5 {
        store.put_token(token("g", number)).await.unwrap();
    }
    let (at, old) = (Millis(NOW.0 + 4), Millis(NOW.0 - 1));
    assert_eq!(store.purge_expired(at, old, 2).await.unwrap(), 2);
    assert_eq!(store.purge_expired(at, old, 2).await.unwrap(), 1);
    assert_eq!(tokens(&*store).await, 2);
    let codes = store.codes_by_prefix("mantyx_ac_12345678").await.unwrap();
    assert_eq!(codes.len(), 1);
    let late = Millis(NOW.0 + 601);
    assert_eq!(store.purge_expired(old, late, 2).await.unwrap(), 1);
    drop(store);
    assert_eq!(fixture.rows("oauth_codes").await, 0);
}
