//! A public server that sends its visitors inside.

use crate::corpus::{INWARD, host_of, name_of};
use crate::entries::{Attacker, ENTRIES, Entry};
use crate::network::alone;
use crate::witness::{CARDS, Witness, declaring, redirecting};

/// Where visitors are sent: each address by itself, by its name, and what else a redirect could say.
fn targets() -> Vec<String> {
    let mut targets: Vec<String> = Vec::new();
    for address in INWARD {
        targets.push(format!("http://{}/", host_of(address)));
        targets.push(format!("http://{}/", name_of(address)));
    }
    targets.extend(
        [
            "//169.254.169.254/",
            "\\\\169.254.169.254\\",
            "http:169.254.169.254",
            "http://0x7f.1/",
            "http://example.com@127.0.0.1/",
            "https://127.0.0.1:8443/",
            "http://localhost:8080/",
            "file:///etc/passwd",
            "gopher://127.0.0.1:6379/_INFO",
        ]
        .map(str::to_owned),
    );
    targets
}

/// Each URL is visited, and nothing else than its server.
async fn follow(
    witness: &Witness,
    attacker: &Attacker,
    entry: &Entry,
    urls: impl IntoIterator<Item = String>,
) {
    for url in urls {
        let before = witness.reached().await.len();
        let (_, got) = attacker.attack(entry, &url).await;
        assert!(got.is_empty(), "{}: {url} brought {got:?}", entry.name);
        let after = witness.nothing_inside(entry.name).await;
        assert!(after > before, "{} was not even sent by {url}", entry.name);
    }
}

#[test]
fn no_redirect_leads_any_entry_inside() {
    alone("detours::no_redirect_leads_any_entry_inside", async {
        let (witness, attacker) = (Witness::start().await, Attacker::allowed(Vec::new()));
        for entry in ENTRIES {
            let all = targets().into_iter();
            let urls = all.map(|to| redirecting(307, &to));
            follow(&witness, &attacker, entry, urls).await;
            for status in [301, 302, 303, 308] {
                let metadata = redirecting(status, "http://169.254.169.254/latest/");
                let twice = redirecting(status, &metadata);
                follow(&witness, &attacker, entry, [metadata, twice]).await;
            }
        }
    });
}

#[test]
fn refuses_private_endpoints_of_agent_cards() {
    alone("detours::refuses_private_endpoints_of_agent_cards", async {
        let (witness, attacker) = (Witness::start().await, Attacker::allowed(Vec::new()));
        let agents = ENTRIES.iter().filter(|entry| entry.name.contains("agent"));
        let agents: Vec<&Entry> = agents.collect();
        assert_eq!(agents.len(), 2);
        for agent in agents {
            for shape in CARDS {
                let all = targets().into_iter();
                let urls = all.map(|to| declaring(shape, &to));
                follow(&witness, &attacker, agent, urls).await;
            }
        }
    });
}
