//! How many durable commits a second, here and on SQLite. Not a test: `--run-ignored only -E 'test(throughput)' --no-capture`.

use std::time::Instant;

use runloom_core::ports::store::Next;
use tokio::task::JoinSet;

use crate::fixture::{Fixture, batch};

async fn measure(name: &str, fixture: Fixture) {
    for committers in [1_usize, 64, 512] {
        let mut leases = Vec::new();
        for index in 0..committers {
            leases.push(fixture.started(&format!("t{committers}x{index}")).await);
        }
        let each = (20_000 / committers).clamp(40, 1_500) as u64;
        let begun = Instant::now();
        let mut writers = JoinSet::new();
        for lease in leases {
            let store = fixture.store();
            writers.spawn(async move {
                for seq in 2..2 + each {
                    let mut event = batch(seq, seq, Next::Keep);
                    event.chunk.frames = bytes::Bytes::from(vec![b'x'; 200]);
                    store.commit(lease, event).await.unwrap();
                }
            });
        }
        while let Some(done) = writers.join_next().await {
            done.unwrap();
        }
        let commits = committers as f64 * each as f64;
        let rate = commits / begun.elapsed().as_secs_f64();
        println!("{name}: {committers} committers: {rate:.0} commits/s");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn throughput() {
    measure("sqlite", Fixture::sqlite().await).await;
    measure("postgres", crate::database::fixture().await).await;
}
