//! What cannot be done to a server that others use: unsafe settings, restarts, TLS.

use std::path::Path;
use std::process::Command;

use runloom_ports::store::{CommitError, Next, StoreErrorKind};
use runloom_store::{OpenError, OpenOptions, open};

use crate::cluster::{Cluster, we_are_root};
use crate::fixture::{Fixture, Place, batch};
use crate::proxy::at_the_end_of_a_way;

impl Place for Cluster {}

#[tokio::test]
async fn refuses_servers_that_can_lose_data() {
    for (setting, remedy) in [
        ("fsync", "fsync = on"),
        ("full_page_writes", "full_page_writes = on"),
    ] {
        let Some(cluster) = Cluster::start(&[(setting, "off")]) else {
            return;
        };
        let refused = open(&cluster.url(), OpenOptions::default()).await;
        let Err(error @ OpenError::Unsafe { .. }) = refused else {
            panic!("{setting} = off was accepted");
        };
        let said = error.to_string();
        assert!(said.contains(setting) && said.contains(remedy), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn crashed_server_loses_nothing() {
    let Some(cluster) = Cluster::start(&[]) else {
        return;
    };
    let cluster = std::sync::Arc::new(cluster);
    let fixture = Fixture::at(cluster.url(), tempfile::tempdir().unwrap()).await;
    let lease = fixture.started("a").await;
    fixture.commit(lease, batch(2, 2, Next::Keep)).await;
    cluster.down();
    // Nobody is there: an error that says "later", within bounded time.
    let refused = fixture.try_commit(lease, batch(3, 3, Next::Keep)).await;
    let Err(CommitError::Store(error)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(error.kind, StoreErrorKind::Unavailable);
    let refused = fixture.store().next_timer().await.unwrap_err();
    assert_eq!(refused.kind, StoreErrorKind::Unavailable);
    cluster.up();
    fixture.commit(lease, batch(3, 3, Next::Keep)).await;
    assert_eq!(fixture.seqs(lease.run).await, [(1, 1), (2, 2), (3, 3)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn detects_reused_transaction_ids() {
    // Nothing reaches the disk before somebody commits.
    let quiet = [("wal_writer_delay", "10s"), ("autovacuum", "off")];
    let Some(cluster) = Cluster::start(&quiet) else {
        return;
    };
    let url = cluster.url();
    let cluster = std::sync::Arc::new(cluster);
    let place = tempfile::tempdir().unwrap();
    let (fixture, way) = at_the_end_of_a_way(&url, place).await;
    let lease = fixture.started("a").await;
    fixture.commit(lease, batch(2, 2, Next::Keep)).await;
    way.lose_next_commit();
    let crash = async {
        way.lost.notified().await;
        tokio::task::block_in_place(|| {
            cluster.down();
            cluster.up();
        });
        // The number of the lost transaction is a stranger's now, who has committed.
        let stranger = crate::database::connect(&url).await;
        for _ in 0..50 {
            let number = stranger.batch_execute("SELECT pg_current_xact_id()");
            number.await.unwrap();
        }
        way.open();
    };
    let (first, ()) = tokio::join!(fixture.try_commit(lease, batch(3, 3, Next::Keep)), crash);
    if first.is_err() {
        // As the driver does: the same batch again.
        fixture.commit(lease, batch(3, 3, Next::Keep)).await;
    }
    fixture.commit(lease, batch(4, 4, Next::Keep)).await;
    let expected = [(1, 1), (2, 2), (3, 3), (4, 4)];
    assert_eq!(fixture.seqs(lease.run).await, expected);
}

#[tokio::test]
async fn tls_checks_the_certificate() {
    let Some(cluster) = Cluster::start(&[]) else {
        return;
    };
    let (certificate, key) = (
        cluster.data().join("server.crt"),
        cluster.data().join("server.key"),
    );
    if !self_signed(&certificate, &key) {
        eprintln!("not tested: there is no openssl on this machine");
        return;
    }
    cluster.down();
    let file = cluster.data().join("postgresql.auto.conf");
    let configuration = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{configuration}ssl = on\n")).unwrap();
    // Only TLS is let in.
    let gate = "hostssl all all 127.0.0.1/32 trust\n";
    std::fs::write(cluster.data().join("pg_hba.conf"), gate).unwrap();
    cluster.up();
    let plain = open(&cluster.url(), OpenOptions::default()).await;
    assert!(plain.is_err(), "the server takes TLS only");
    let untrusted = format!("{}?sslmode=require", cluster.url());
    let refused = open(&untrusted, OpenOptions::default()).await;
    assert!(refused.is_err(), "nobody vouches for the certificate");
    let trusted = format!(
        "{}?sslmode=verify-full&sslrootcert={}",
        cluster.url(),
        certificate.display()
    );
    let store = open(&trusted, OpenOptions::default()).await.unwrap();
    assert!(store.workspaces().await.unwrap().is_empty());
}

/// A certificate for 127.0.0.1, readable for the server.
fn self_signed(certificate: &Path, key: &Path) -> bool {
    let made = Command::new("openssl")
        .args([
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
        ])
        .args([
            "-subj",
            "/CN=127.0.0.1",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
        ])
        .arg("-addext")
        .arg("basicConstraints=critical,CA:FALSE")
        .arg("-keyout")
        .arg(key)
        .arg("-out")
        .arg(certificate)
        .output();
    let Ok(made) = made else { return false };
    assert!(made.status.success(), "{made:?}");
    if we_are_root() {
        for file in [certificate, key] {
            let owned = Command::new("chown").arg("postgres").arg(file).output();
            assert!(owned.unwrap().status.success());
        }
    }
    true
}
