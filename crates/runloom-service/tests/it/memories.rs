//! Memories as agents use them: kept once, found by words and over links, walked along links.

use std::sync::Arc;

use runloom_ports::error::Error;
use runloom_ports::memory::{Recollection, Remember, Traverse, WorkspaceMemory};
use runloom_ports::store::{Millis, WorkspaceNo, WorkspaceRow};
use runloom_service::memory::MemoryService;
use runloom_store::OpenOptions;

struct World {
    memory: MemoryService,
    _folder: tempfile::TempDir,
}

async fn world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("m.db").display());
    let store = runloom_store::open(&url, OpenOptions::default()).await;
    let store = store.unwrap();
    for slug in ["acme", "rival"] {
        let row = WorkspaceRow {
            no: WorkspaceNo(0),
            slug: slug.to_owned(),
            name: slug.to_owned(),
            without: Vec::new(),
        };
        store.put_workspace(row, Millis(1)).await.unwrap();
    }
    World {
        memory: MemoryService::new(Arc::clone(&store)),
        _folder: folder,
    }
}

impl World {
    async fn keep(&self, key: &str, text: &str, links: &[(&str, &str)]) {
        let link = |(relation, to): &(&str, &str)| ((*relation).to_owned(), (*to).to_owned());
        let memory = Remember {
            key: Some(key.to_owned()),
            text: text.to_owned(),
            links: Some(links.iter().map(link).collect()),
        };
        self.memory.remember("acme", memory).await.unwrap();
    }

    async fn walk(&self, from: &str, hops: u32, limit: usize) -> Recollection {
        let walk = Traverse {
            from: from.to_owned(),
            relation: None,
            hops,
            limit,
        };
        self.memory.traverse("acme", walk).await.unwrap()
    }
}

fn keys(found: &Recollection) -> Vec<&str> {
    found.memories.iter().map(|m| m.key.as_str()).collect()
}

#[tokio::test]
async fn a_question_finds_words_first_and_then_what_is_linked() {
    let world = world().await;
    world
        .keep("ada", "Ada leads the harbour project", &[])
        .await;
    world
        .keep("budget", "Three million for cranes", &[("pays", "ada")])
        .await;
    world.keep("cat", "A cat sleeps", &[]).await;
    let found = world
        .memory
        .recall("acme", "Who leads the harbour project?", 8)
        .await
        .unwrap();
    assert_eq!(keys(&found), ["ada", "budget"]);
    assert_eq!(found.links.len(), 1);
    assert!(!found.truncated);
    let one = world.memory.recall("acme", "harbour", 1).await.unwrap();
    assert_eq!(keys(&one), ["ada"]);
    assert!(one.truncated);
    let none = world.memory.recall("rival", "harbour", 8).await.unwrap();
    assert!(none.memories.is_empty());
}

#[tokio::test]
async fn a_text_without_a_key_is_kept_once() {
    let world = world().await;
    let memory = Remember {
        key: None,
        text: "The entry_point code changes on Mondays".to_owned(),
        links: None,
    };
    let first = world.memory.remember("acme", memory.clone()).await.unwrap();
    let again = world.memory.remember("acme", memory).await.unwrap();
    assert!(first.created && !again.created);
    assert_eq!(first.key, again.key);
    let (all, _) = world.memory.list("acme", 10, None).await.unwrap();
    assert_eq!(all.len(), 1);
}

#[tokio::test]
async fn a_walk_goes_as_far_as_asked_and_no_further_than_the_limit() {
    let world = world().await;
    world.keep("d", "d", &[]).await;
    world.keep("c", "c", &[("next", "d")]).await;
    world.keep("b", "b", &[("next", "c")]).await;
    world.keep("a", "a", &[("next", "b")]).await;
    world.keep("d", "d", &[("next", "a")]).await;
    assert_eq!(keys(&world.walk("a", 1, 10).await), ["a", "b", "d"]);
    assert_eq!(keys(&world.walk("a", 9, 10).await).len(), 4);
    let short = world.walk("a", 9, 2).await;
    assert_eq!(short.memories.len(), 2);
    assert!(short.truncated);
    let other = Traverse {
        from: "a".to_owned(),
        relation: Some("other".to_owned()),
        hops: 3,
        limit: 10,
    };
    assert_eq!(
        keys(&world.memory.traverse("acme", other).await.unwrap()),
        ["a"]
    );
    let lost = Traverse {
        from: "nowhere".to_owned(),
        relation: None,
        hops: 1,
        limit: 10,
    };
    let error = world.memory.traverse("acme", lost).await.unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error:?}");
}

#[tokio::test]
async fn every_violation_of_a_memory_is_said_at_once() {
    let world = world().await;
    let memory = Remember {
        key: Some(" odd ".to_owned()),
        text: "x".repeat(20_000),
        links: Some(vec![
            (String::new(), "a".to_owned()),
            ("is".to_owned(), " odd ".to_owned()),
        ]),
    };
    let error = world.memory.remember("acme", memory).await.unwrap_err();
    let Error::Invalid(issues) = error else {
        panic!("{error:?}");
    };
    let paths: Vec<_> = issues.iter().map(|issue| issue.path.as_str()).collect();
    assert_eq!(paths, ["text", "key", "links[0].relation", "links[1].to"]);
}

#[tokio::test]
async fn memories_are_listed_in_pages_and_forgotten() {
    let world = world().await;
    for key in ["a", "b", "c"] {
        world.keep(key, key, &[]).await;
    }
    let (page, cursor) = world.memory.list("acme", 2, None).await.unwrap();
    assert_eq!(page.len(), 2);
    let (rest, end) = world
        .memory
        .list("acme", 2, cursor.as_deref())
        .await
        .unwrap();
    assert_eq!((rest.len(), end), (1, None));
    assert!(world.memory.list("acme", 2, Some("x")).await.is_err());
    world.memory.forget("acme", "a").await.unwrap();
    assert!(world.memory.forget("acme", "a").await.is_err());
    assert_eq!(world.memory.forget_older("acme", 1).await.unwrap(), 0);
}
