//! The same attacks with the operator's permission: they arrive, so that the other tests would see it.

use std::net::IpAddr;

use crate::corpus::{INWARD, PUBLIC, host_of, name_of};
use crate::entries::{Attacker, ENTRIES};
use crate::network::alone;
use crate::witness::{CARDS, Witness, declaring, redirecting};

/// Where a connection to the address arrives.
fn arrival(address: &str) -> IpAddr {
    let address: IpAddr = address.parse().unwrap();
    match address.to_canonical() {
        // The kernel takes "no address" for this machine.
        IpAddr::V4(any) if any.is_unspecified() => [127, 0, 0, 1].into(),
        IpAddr::V6(any) if any.is_unspecified() => std::net::Ipv6Addr::LOCALHOST.into(),
        address => address,
    }
}

/// Attacks through the entry and fails unless the address was connected to.
async fn arrives(
    witness: &Witness,
    attacker: &Attacker,
    (entry, address): (usize, &str),
    url: &str,
) {
    let entry = &ENTRIES[entry];
    let before = witness.reached().await.len();
    let (checked, _) = attacker.attack(entry, url).await;
    assert!(checked.is_ok(), "{}: {url}: {checked:?}", entry.name);
    let reached = witness.reached().await;
    assert!(
        reached[before..].contains(&arrival(address)),
        "{} with {url} reached {:?}",
        entry.name,
        &reached[before..]
    );
}

#[test]
fn allowed_addresses_are_reached() {
    alone("controls::allowed_addresses_are_reached", async {
        let hosts = INWARD.iter().map(|address| host_of(address)).collect();
        let (witness, attacker) = (Witness::start().await, Attacker::allowed(hosts));
        for entry in 0..ENTRIES.len() {
            for address in INWARD {
                // A path of its own: what an earlier entry learnt about a server is no answer here.
                let url = format!("http://{}/{entry}", host_of(address));
                arrives(&witness, &attacker, (entry, address), &url).await;
            }
        }
    });
}

#[test]
fn allowed_names_redirects_and_cards_are_reached() {
    alone(
        "controls::allowed_names_redirects_and_cards_are_reached",
        async {
            let allowed = vec!["*.trap.example".to_owned()];
            let (witness, attacker) = (Witness::start().await, Attacker::allowed(allowed));
            for (entry, attack) in ENTRIES.iter().enumerate() {
                for address in INWARD {
                    let url = format!("http://{}/{entry}", name_of(address));
                    arrives(&witness, &attacker, (entry, address), &url).await;
                }
                let address = "169.254.169.254";
                let url = format!("http://{}/moved/{entry}", name_of(address));
                let moved = redirecting(307, &url);
                // What has a body follows no redirect to another origin, whatever the operator allows.
                if attack.asks_without_a_body() {
                    arrives(&witness, &attacker, (entry, address), &moved).await;
                }
            }
            let agent = ENTRIES
                .iter()
                .position(|entry| entry.name == "A2A agent of the request");
            for shape in CARDS {
                for address in INWARD {
                    let url = declaring(shape, &format!("http://{}/", name_of(address)));
                    arrives(&witness, &attacker, (agent.unwrap(), address), &url).await;
                }
            }
        },
    );
}

#[test]
fn public_addresses_are_reached() {
    alone("controls::public_addresses_are_reached", async {
        let (witness, attacker) = (Witness::start().await, Attacker::allowed(Vec::new()));
        for entry in 0..ENTRIES.len() {
            let url = format!("http://{PUBLIC}/{entry}");
            arrives(&witness, &attacker, (entry, PUBLIC), &url).await;
        }
    });
}
