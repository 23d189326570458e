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
fn refuses_every_spelling_of_private_addresses() {
    alone(
        "direct::refuses_every_spelling_of_private_addresses",
        async { attack(ENTRIES, &urls()).await },
    );
}

#[test]
fn refuses_names_of_private_addresses() {
    alone("direct::refuses_names_of_private_addresses", async {
        attack(ENTRIES, &named_urls()).await
    });
}

#[test]
fn arguments_never_change_the_host() {
    alone("direct::arguments_never_change_the_host", async {
        let all = [urls(), named_urls()].concat();
        attack(TEMPLATES, &all).await;
    });
}

#[test]
fn connects_only_to_public_addresses_of_a_name() {
    alone(
        "direct::connects_only_to_public_addresses_of_a_name",
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
