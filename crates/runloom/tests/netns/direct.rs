//! URLs that lead inside by themselves.

use crate::corpus::{PUBLIC, named_urls, urls};
use crate::entries::{Attacker, ENTRIES, Entry, TEMPLATES};
use crate::network::alone;
use crate::witness::Witness;

async fn attack(entries: &[Entry], urls: &[String]) {
    let (witness, attacker) = (Witness::start().await, Attacker::allowed(Vec::new()));
    for entry in entries {
        for url in urls {
            let (_, got) = attacker.attack(entry, url).await;
            assert!(got.is_empty(), "{}: {url} brought {got:?}", entry.name);
            let what = format!("{} with {url}", entry.name);
            assert_eq!(witness.nothing_inside(&what).await, 0, "{what}");
        }
    }
}

#[test]
fn no_spelling_of_an_address_inside_is_connected_to_by_any_entry() {
    alone(
        "direct::no_spelling_of_an_address_inside_is_connected_to_by_any_entry",
        async { attack(ENTRIES, &urls()).await },
    );
}

#[test]
fn no_name_of_an_address_inside_is_connected_to_by_any_entry() {
    alone(
        "direct::no_name_of_an_address_inside_is_connected_to_by_any_entry",
        async { attack(ENTRIES, &named_urls()).await },
    );
}

#[test]
fn no_argument_changes_the_place_of_an_http_tool() {
    alone(
        "direct::no_argument_changes_the_place_of_an_http_tool",
        async {
            let all = [urls(), named_urls()].concat();
            attack(TEMPLATES, &all).await;
        },
    );
}

#[test]
fn of_a_name_that_lies_inside_and_outside_only_the_outside_is_connected_to() {
    alone(
        "direct::of_a_name_that_lies_inside_and_outside_only_the_outside_is_connected_to",
        async {
            let (witness, attacker) = (Witness::start().await, Attacker::allowed(Vec::new()));
            for entry in ENTRIES {
                let before = witness.reached().await.len();
                let (checked, _) = attacker.attack(entry, "http://mixed.trap.example/").await;
                assert!(checked.is_ok(), "{}: {checked:?}", entry.name);
                let after = witness.nothing_inside(entry.name).await;
                assert!(after > before, "{} did not even reach {PUBLIC}", entry.name);
            }
        },
    );
}
