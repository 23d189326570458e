//! Memories: kept under keys, found by words and links.

use runloom_ports::store::{Millis, PutMemory, Remembered, WorkspaceNo};

use crate::fixture::{Fixture, NOW};

/// A memory whose words are those of its text.
fn put(workspace: WorkspaceNo, key: &str, text: &str) -> PutMemory {
    let words: Vec<&str> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    PutMemory {
        workspace,
        key: key.to_owned(),
        text: text.to_owned(),
        words: words.join(" "),
        links: None,
        limit: 100,
        now: NOW,
    }
}

fn linked(put: PutMemory, links: &[(&str, &str)]) -> PutMemory {
    let link = |(relation, key): &(&str, &str)| ((*relation).to_owned(), (*key).to_owned());
    PutMemory {
        links: Some(links.iter().map(link).collect()),
        ..put
    }
}

async fn keep(fixture: &Fixture, put: PutMemory) -> Remembered {
    fixture.store().remember(put).await.unwrap()
}

/// Keys of what is found by these words, best first.
async fn found(fixture: &Fixture, workspace: WorkspaceNo, words: &[&str]) -> Vec<String> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let rows = fixture.store().matching(workspace, &words, 10).await;
    rows.unwrap().into_iter().map(|row| row.key).collect()
}

/// `from relation to` of every link at these keys.
async fn links(fixture: &Fixture, workspace: WorkspaceNo, keys: &[&str]) -> Vec<String> {
    let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    let links = fixture.store().links_at(workspace, &keys, 100).await;
    let line = |link: runloom_ports::store::MemoryLink| {
        format!("{} {} {}", link.from, link.relation, link.to)
    };
    links.unwrap().into_iter().map(line).collect()
}

pub(crate) async fn a_memory_put_again_is_replaced_and_found_by_its_new_words(
    mut fixture: Fixture,
) {
    let acme = fixture.acme;
    assert_eq!(
        keep(&fixture, put(acme, "dog", "barks loudly")).await,
        Remembered::Created
    );
    let later = PutMemory {
        now: Millis(NOW.0 + 5),
        ..put(acme, "dog", "sleeps \0 a lot")
    };
    assert_eq!(keep(&fixture, later).await, Remembered::Replaced);
    fixture.reopen().await;
    assert_eq!(found(&fixture, acme, &["barks"]).await, [""; 0]);
    assert_eq!(found(&fixture, acme, &["sleeps"]).await, ["dog"]);
    let keys = ["dog".to_owned(), "nobody".to_owned()];
    let rows = fixture.store().memories_by_key(acme, &keys).await.unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].text, "sleeps \0 a lot");
    assert_eq!(rows[0].created_at, NOW);
    assert_eq!(rows[0].updated_at, Millis(NOW.0 + 5));
}

pub(crate) async fn memories_are_found_by_beginnings_of_words_best_first(fixture: Fixture) {
    let acme = fixture.acme;
    keep(&fixture, put(acme, "both", "the blue boat in the harbour")).await;
    keep(&fixture, put(acme, "one", "a blue door")).await;
    keep(&fixture, put(acme, "none", "something else entirely")).await;
    for filler in 0..8 {
        keep(
            &fixture,
            put(acme, &format!("filler-{filler}"), "unrelated words"),
        )
        .await;
    }
    assert_eq!(
        found(&fixture, acme, &["blue", "boat"]).await,
        ["both", "one"]
    );
    assert_eq!(found(&fixture, acme, &["HARB"]).await, ["both"]);
    assert_eq!(found(&fixture, acme, &["else", "missing"]).await, ["none"]);
    assert_eq!(found(&fixture, acme, &["oat"]).await, [""; 0]);
    assert_eq!(found(&fixture, acme, &[]).await, [""; 0]);
    let few = fixture
        .store()
        .matching(acme, &["unrelated".to_owned()], 3)
        .await;
    assert_eq!(few.unwrap().len(), 3);
}

pub(crate) async fn the_newer_of_two_equal_matches_comes_first(fixture: Fixture) {
    let acme = fixture.acme;
    for (key, at) in [("old", 1), ("new", 3), ("middle", 2)] {
        let memory = PutMemory {
            now: Millis(at),
            ..put(acme, key, "same words")
        };
        keep(&fixture, memory).await;
    }
    assert_eq!(
        found(&fixture, acme, &["same"]).await,
        ["new", "middle", "old"]
    );
}

pub(crate) async fn no_word_is_read_as_syntax(fixture: Fixture) {
    let (acme, rival) = (fixture.acme, fixture.rival);
    keep(&fixture, put(acme, "plain", "or and not near words tenant")).await;
    keep(&fixture, put(rival, "theirs", "a rival thing")).await;
    for hostile in [
        "\"",
        "*",
        "\" OR \"",
        "words:",
        "tenant : w2",
        "NEAR(a b)",
        "^plain",
        "a - b",
        "{x}",
        "'; DROP TABLE memories; --",
        ":*",
        "!",
        "&|",
        "<->",
        "()",
        "\\",
        "\0",
        "rival\" OR tenant:\"w2",
        "\u{202e}",
        "🦀",
    ] {
        assert!(
            !found(&fixture, acme, &[hostile])
                .await
                .contains(&"theirs".to_owned()),
            "{hostile}"
        );
    }
    for keyword in ["OR", "AND", "NOT", "NEAR"] {
        assert_eq!(
            found(&fixture, acme, &[keyword]).await,
            ["plain"],
            "{keyword}"
        );
    }
    assert_eq!(found(&fixture, acme, &["w1"]).await, [""; 0]);
    let long = "x".repeat(3_000);
    assert_eq!(found(&fixture, acme, &[&long]).await, [""; 0]);
    assert_eq!(found(&fixture, acme, &["words"]).await, ["plain"]);
}

pub(crate) async fn links_are_seen_from_both_ends_and_replaced_when_given(fixture: Fixture) {
    let acme = fixture.acme;
    for key in ["ada", "bob", "eve"] {
        keep(&fixture, put(acme, key, key)).await;
    }
    let knows = linked(
        put(acme, "ada", "Ada"),
        &[("knows", "bob"), ("knows", "eve"), ("knows", "bob")],
    );
    assert_eq!(keep(&fixture, knows.clone()).await, Remembered::Replaced);
    assert_eq!(
        links(&fixture, acme, &["ada"]).await,
        ["ada knows bob", "ada knows eve"]
    );
    assert_eq!(links(&fixture, acme, &["bob"]).await, ["ada knows bob"]);
    keep(&fixture, knows).await;
    assert_eq!(links(&fixture, acme, &["ada", "bob"]).await.len(), 2);
    keep(&fixture, put(acme, "ada", "Ada again")).await;
    assert_eq!(
        links(&fixture, acme, &["ada"]).await.len(),
        2,
        "no links given: they stay"
    );
    keep(
        &fixture,
        linked(put(acme, "ada", "Ada"), &[("likes", "eve")]),
    )
    .await;
    assert_eq!(links(&fixture, acme, &["ada"]).await, ["ada likes eve"]);
    let keys = ["ada".to_owned()];
    keep(
        &fixture,
        linked(
            put(acme, "ada", "Ada"),
            &[("a", "bob"), ("b", "bob"), ("c", "bob")],
        ),
    )
    .await;
    let few = fixture.store().links_at(acme, &keys, 2).await.unwrap();
    assert_eq!(few.len(), 2);
}

pub(crate) async fn a_link_to_an_unknown_key_keeps_nothing(fixture: Fixture) {
    let (acme, rival) = (fixture.acme, fixture.rival);
    keep(&fixture, put(rival, "theirs", "x")).await;
    let refused = linked(
        put(acme, "ada", "Ada"),
        &[("knows", "theirs"), ("knows", "nobody")],
    );
    let unknown = vec!["theirs".to_owned(), "nobody".to_owned()];
    assert_eq!(keep(&fixture, refused).await, Remembered::Unknown(unknown));
    assert_eq!(found(&fixture, acme, &["Ada"]).await, [""; 0]);
}

pub(crate) async fn a_workspace_sees_its_own_memories_only(fixture: Fixture) {
    let (acme, rival) = (fixture.acme, fixture.rival);
    keep(&fixture, put(acme, "plan", "secret merger")).await;
    keep(&fixture, put(acme, "more", "merger details")).await;
    keep(
        &fixture,
        linked(put(acme, "plan", "secret merger"), &[("see", "more")]),
    )
    .await;
    keep(&fixture, put(rival, "plan", "picnic")).await;
    assert_eq!(
        found(&fixture, rival, &["merger", "picnic"]).await,
        ["plan"]
    );
    assert_eq!(links(&fixture, rival, &["plan", "more"]).await, [""; 0]);
    let keys = ["plan".to_owned(), "more".to_owned()];
    let rows = fixture.store().memories_by_key(rival, &keys).await.unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].text, "picnic");
    assert!(!fixture.store().forget(rival, "more").await.unwrap());
    let all = fixture
        .store()
        .forget_before(rival, Millis(i64::MAX), 100)
        .await;
    assert_eq!(all.unwrap(), 1);
    assert_eq!(found(&fixture, acme, &["merger"]).await.len(), 2);
}

pub(crate) async fn memories_of_others_do_not_change_the_order(fixture: Fixture) {
    let (acme, rival) = (fixture.acme, fixture.rival);
    keep(&fixture, put(acme, "first", "walrus pension")).await;
    keep(&fixture, put(acme, "second", "falcon pension")).await;
    let asked = ["walrus", "falcon"];
    let before = found(&fixture, acme, &asked).await;
    for word in asked {
        for number in 0..8 {
            let key = format!("{word}-{number}");
            keep(&fixture, put(rival, &key, word)).await;
        }
        assert_eq!(found(&fixture, acme, &asked).await, before, "{word}");
    }
}

pub(crate) async fn a_full_workspace_takes_changes_but_no_more_memories(fixture: Fixture) {
    let small = |key: &str| PutMemory {
        limit: 2,
        ..put(fixture.acme, key, "text")
    };
    assert_eq!(keep(&fixture, small("a")).await, Remembered::Created);
    assert_eq!(keep(&fixture, small("b")).await, Remembered::Created);
    assert_eq!(keep(&fixture, small("c")).await, Remembered::Full);
    assert_eq!(keep(&fixture, small("a")).await, Remembered::Replaced);
    let rival = PutMemory {
        workspace: fixture.rival,
        ..small("c")
    };
    assert_eq!(keep(&fixture, rival).await, Remembered::Created);
}

pub(crate) async fn memories_are_listed_newest_first_in_pages(fixture: Fixture) {
    let acme = fixture.acme;
    for key in ["a", "b", "c"] {
        keep(&fixture, put(acme, key, key)).await;
    }
    keep(&fixture, put(fixture.rival, "d", "d")).await;
    let first = fixture.store().memories(acme, None, 2).await.unwrap();
    let keys: Vec<&str> = first.iter().map(|row| row.key.as_str()).collect();
    assert_eq!(keys, ["c", "b"]);
    let rest = fixture.store().memories(acme, Some(first[1].no), 2).await;
    let rest: Vec<String> = rest.unwrap().into_iter().map(|row| row.key).collect();
    assert_eq!(rest, ["a"]);
}

pub(crate) async fn a_forgotten_memory_is_gone_with_its_words_and_links(fixture: Fixture) {
    let acme = fixture.acme;
    keep(&fixture, put(acme, "bob", "Bob")).await;
    keep(
        &fixture,
        linked(put(acme, "ada", "Ada"), &[("knows", "bob")]),
    )
    .await;
    assert!(fixture.store().forget(acme, "bob").await.unwrap());
    assert!(!fixture.store().forget(acme, "bob").await.unwrap());
    assert_eq!(found(&fixture, acme, &["Bob"]).await, [""; 0]);
    assert_eq!(links(&fixture, acme, &["ada"]).await, [""; 0]);
    assert_eq!(
        keep(&fixture, put(acme, "bob", "Bob is back")).await,
        Remembered::Created
    );
    assert_eq!(found(&fixture, acme, &["back"]).await, ["bob"]);
    assert_eq!(links(&fixture, acme, &["bob"]).await, [""; 0]);
}

pub(crate) async fn old_memories_are_forgotten_a_few_at_a_time(fixture: Fixture) {
    let acme = fixture.acme;
    for at in 1..=5 {
        let memory = PutMemory {
            now: Millis(at),
            ..put(acme, &format!("m{at}"), "text")
        };
        keep(&fixture, memory).await;
    }
    let forget = async || {
        fixture
            .store()
            .forget_before(acme, Millis(4), 2)
            .await
            .unwrap()
    };
    assert_eq!((forget().await, forget().await, forget().await), (2, 1, 0));
    assert_eq!(found(&fixture, acme, &["text"]).await, ["m5", "m4"]);
}
