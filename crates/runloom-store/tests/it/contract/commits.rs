//! Batches: what is written, what is refused, what is read back.

use bytes::Bytes;
use runloom_ports::store::{Chunk, CommitError, Lease, MailNo, Millis, Next, RunNo};
use runloom_protocol::outcome::{ErrorClass, FailureReason, RunCancelled, Tokens};
use runloom_protocol::resource::RunStatus;
use tokio::task::JoinSet;

use crate::fixture::{Fixture, NOW, batch, chunk, ending, finishing, open_call, run_id};

pub(crate) async fn frames_come_back_byte_for_byte(fixture: Fixture) {
    let lease = fixture.started("a").await;
    let mut odd = batch(2, 3, Next::Keep);
    odd.chunk.frames = Bytes::from_static(b"id: 2\ndata: \xff\x00\r\n\n");
    fixture.commit(lease, odd.clone()).await;
    let read = fixture.store().read_log(lease.run, 0, 1 << 20).await;
    assert_eq!(read.unwrap(), [chunk(1, 1), odd.chunk]);
}

pub(crate) async fn an_old_epoch_is_fenced_and_writes_nothing(mut fixture: Fixture) {
    let old = fixture.started("a").await;
    fixture.reopen().await;
    let new = fixture.claim(old.run).await.lease;
    for epoch in [old.epoch, new.epoch + 1] {
        let lease = Lease {
            run: old.run,
            epoch,
        };
        let mut stale = finishing(2, ending(RunStatus::Failed));
        stale.opened = vec![open_call("call")];
        let refused = fixture.try_commit(lease, stale).await;
        assert!(matches!(refused, Err(CommitError::Fenced)), "{refused:?}");
    }
    assert_eq!(fixture.seqs(old.run).await, [(1, 1)]);
    assert_eq!(fixture.row("a").await.status, RunStatus::Running);
    fixture.commit(new, batch(2, 2, Next::Keep)).await;
    assert_eq!(fixture.seqs(old.run).await, [(1, 1), (2, 2)]);
}

pub(crate) async fn a_lease_is_gone_after_park_release_and_finish(fixture: Fixture) {
    let endings = [
        ("a", batch(2, 2, Next::Park { wake_at: None })),
        ("b", batch(2, 2, Next::Release)),
        ("c", finishing(2, ending(RunStatus::Succeeded))),
    ];
    for (name, last) in endings {
        let lease = fixture.started(name).await;
        fixture.commit(lease, last).await;
        let refused = fixture.try_commit(lease, batch(3, 3, Next::Keep)).await;
        assert!(matches!(refused, Err(CommitError::Fenced)), "{name}");
        assert_eq!(fixture.seqs(lease.run).await, [(1, 1), (2, 2)], "{name}");
    }
}

pub(crate) async fn reading_in_small_pieces_has_no_gap(fixture: Fixture) {
    let lease = fixture.started("a").await;
    let mut next = 2;
    for size in [1, 5, 2, 9, 1, 1, 3] {
        let last = next + size - 1;
        fixture.commit(lease, batch(next, last, Next::Keep)).await;
        next = last + 1;
    }
    for cap in [0, 1, 40, 100, 1 << 20] {
        let mut frames = Vec::new();
        let mut seq = 0;
        loop {
            let chunks = fixture.store().read_log(lease.run, seq, cap).await.unwrap();
            let Some(last) = chunks.last() else { break };
            let bytes: usize = chunks.iter().map(|chunk| chunk.frames.len()).sum();
            assert!(chunks.len() == 1 || bytes <= cap, "{bytes} bytes for {cap}");
            seq = last.last_seq;
            frames.extend(chunks);
        }
        let bytes: Vec<u8> = frames
            .iter()
            .flat_map(|chunk| &chunk.frames)
            .copied()
            .collect();
        assert_eq!(Bytes::from(bytes), chunk(1, next - 1).frames, "cap {cap}");
    }
}

pub(crate) async fn reading_from_the_middle_of_a_chunk_starts_with_that_chunk(fixture: Fixture) {
    let lease = fixture.started("a").await;
    fixture.commit(lease, batch(2, 5, Next::Keep)).await;
    fixture.commit(lease, batch(6, 6, Next::Keep)).await;
    let read = async |seq| -> Vec<u64> {
        let chunks = fixture.store().read_log(lease.run, seq, 1 << 20).await;
        chunks
            .unwrap()
            .iter()
            .map(|chunk| chunk.first_seq)
            .collect()
    };
    assert_eq!(read(1).await, [2, 6]);
    assert_eq!(read(3).await, [2, 6]);
    assert_eq!(read(5).await, [6]);
    assert!(read(6).await.is_empty());
    let unknown = fixture.store().read_log(RunNo(4_711), 0, 1).await;
    assert!(unknown.unwrap().is_empty());
}

pub(crate) async fn notes_are_for_the_owner_only(mut fixture: Fixture) {
    let lease = fixture.started("a").await;
    let notes_alone = |first_seq, notes: &str| {
        let mut batch = batch(first_seq, first_seq, Next::Keep);
        batch.chunk = Chunk {
            first_seq,
            last_seq: first_seq - 1,
            terminal: false,
            frames: Bytes::new(),
        };
        batch.notes = notes.to_owned();
        batch
    };
    fixture.commit(lease, notes_alone(2, "[1]")).await;
    let mut both = batch(2, 3, Next::Keep);
    both.notes = "[2]".to_owned();
    both.at = Millis(NOW.0 + 7);
    fixture.commit(lease, both).await;
    fixture.commit(lease, notes_alone(4, "[3]")).await;
    assert_eq!(fixture.seqs(lease.run).await, [(1, 1), (2, 3)]);
    fixture.reopen().await;
    let log = fixture.claim(lease.run).await.log;
    let notes: Vec<&str> = log.iter().map(|entry| entry.notes.as_str()).collect();
    assert_eq!(notes, ["", "[1]", "[2]", "[3]"]);
    assert_eq!(log[1].chunk, notes_alone(2, "").chunk);
    assert_eq!(log[2].at, Millis(NOW.0 + 7));
}

pub(crate) async fn a_batch_of_nothing_leaves_no_trace_in_the_log(mut fixture: Fixture) {
    let lease = fixture.started("a").await;
    let mut nothing = batch(2, 1, Next::Release);
    nothing.chunk.frames = Bytes::new();
    fixture.commit(lease, nothing).await;
    fixture.reopen().await;
    assert_eq!(fixture.claim(lease.run).await.log.len(), 1);
}

pub(crate) async fn a_batch_that_rests_on_silence_is_refused_when_mail_came(fixture: Fixture) {
    let lease = fixture.started("a").await;
    let mut opening = batch(2, 2, Next::Keep);
    opening.opened = vec![open_call("call")];
    fixture.commit(lease, opening).await;
    fixture.answer("a", "call").await;
    let mut timeout = batch(3, 3, Next::Keep);
    timeout.unless_mail = true;
    let refused = fixture.try_commit(lease, timeout.clone()).await;
    assert!(matches!(refused, Err(CommitError::MailWaiting)));
    assert_eq!(fixture.seqs(lease.run).await, [(1, 1), (2, 2)]);
    let mail = fixture.store().mail(lease.run, MailNo::default()).await;
    timeout.mail_through = mail.unwrap()[0].no;
    fixture.commit(lease, timeout).await;
    assert_eq!(fixture.seqs(lease.run).await, [(1, 1), (2, 2), (3, 3)]);
}

pub(crate) async fn folded_mail_is_deleted_and_later_mail_is_kept(fixture: Fixture) {
    let store = fixture.store();
    let lease = fixture.started("a").await;
    let mut opening = batch(2, 2, Next::Keep);
    opening.opened = vec![open_call("x"), open_call("y"), open_call("z")];
    fixture.commit(lease, opening).await;
    for call in ["x", "y", "z"] {
        fixture.answer("a", call).await;
    }
    let mail = store.mail(lease.run, MailNo::default()).await.unwrap();
    let mut folding = batch(3, 3, Next::Keep);
    folding.mail_through = mail[0].no;
    fixture.commit(lease, folding).await;
    let left = store.mail(lease.run, MailNo::default()).await.unwrap();
    assert_eq!(left, mail[1..]);
    let mut folding = batch(4, 4, Next::Keep);
    folding.mail_through = mail[2].no;
    fixture.commit(lease, folding).await;
    let left = store.mail(lease.run, MailNo::default()).await.unwrap();
    assert!(left.is_empty());
}

pub(crate) async fn parking_with_unread_mail_leaves_the_run_claimable(fixture: Fixture) {
    let lease = fixture.started("a").await;
    let mut opening = batch(2, 2, Next::Keep);
    opening.opened = vec![open_call("call")];
    fixture.commit(lease, opening).await;
    fixture.answer("a", "call").await;
    fixture
        .commit(lease, batch(3, 3, Next::Park { wake_at: None }))
        .await;
    assert_eq!(fixture.claimable(NOW).await, [lease.run]);
    assert_eq!(fixture.claim(lease.run).await.mail.len(), 1);
}

pub(crate) async fn a_status_changes_with_the_batch_that_names_it(fixture: Fixture) {
    let lease = fixture.started("a").await;
    let mut waiting = batch(2, 2, Next::Keep);
    waiting.status = Some(RunStatus::WaitingTool);
    fixture.commit(lease, waiting).await;
    assert_eq!(fixture.row("a").await.status, RunStatus::WaitingTool);
    fixture.commit(lease, batch(3, 3, Next::Keep)).await;
    assert_eq!(fixture.row("a").await.status, RunStatus::WaitingTool);
    let mut parking = batch(4, 4, Next::Park { wake_at: None });
    parking.status = Some(RunStatus::Running);
    fixture.commit(lease, parking).await;
    assert_eq!(fixture.row("a").await.status, RunStatus::Running);
}

pub(crate) async fn the_end_of_a_run_is_in_its_row(fixture: Fixture) {
    let lease = fixture.started("a").await;
    let before = fixture.row("a").await;
    assert!(before.tokens.is_none() && before.model.is_none() && before.turns.is_none());
    let mut end = ending(RunStatus::Failed);
    end.final_text = Some("so far".to_owned());
    end.error = Some("it broke".to_owned());
    end.failure = Some(FailureReason {
        error_class: ErrorClass::Overloaded,
        finish_reason: Some("max_tokens".to_owned()),
    });
    end.cancel = Some(RunCancelled {
        subagents: None,
        reason: "user".to_owned(),
        requested_at: None,
        stopped_at: None,
        interrupted: vec!["model".to_owned()],
        tokens: Tokens::default(),
        turns: 3,
        model: None,
        cost_usd: None,
    });
    end.tokens.output_tokens = 17;
    end.turns = 3;
    end.cost_usd = Some(0.25);
    let mut last = finishing(2, end.clone());
    last.at = Millis(NOW.0 + 9);
    fixture.commit(lease, last).await;
    let row = fixture.row("a").await;
    assert_eq!(row.status, RunStatus::Failed);
    assert_eq!(row.final_text, end.final_text);
    assert_eq!(row.error, end.error);
    assert_eq!(row.failure, end.failure);
    assert_eq!(row.cancel, end.cancel);
    assert_eq!(row.tokens, Some(end.tokens));
    assert_eq!(row.turns, Some(3));
    assert_eq!(row.model, Some(end.model));
    assert_eq!(row.cost_usd, Some(0.25));
    assert_eq!(row.completed_at, Some(Millis(NOW.0 + 9)));
    let log = fixture.store().read_log(lease.run, 1, 1 << 20).await;
    assert!(log.unwrap()[0].terminal);
}

pub(crate) async fn everything_survives_a_restart(mut fixture: Fixture) {
    let lease = fixture.started("a").await;
    fixture.park_with_call(lease, 2, "call").await;
    let queued = fixture.queued("b").await;
    let done = fixture.started("c").await;
    fixture.finish(done, 2, RunStatus::Succeeded).await;
    fixture.reopen().await;
    assert_eq!(fixture.row("a").await.status, RunStatus::WaitingTool);
    assert_eq!(fixture.row("c").await.status, RunStatus::Succeeded);
    assert_eq!(fixture.seqs(lease.run).await, [(1, 1), (2, 2)]);
    assert_eq!(fixture.seqs(done.run).await, [(1, 1), (2, 2)]);
    assert_eq!(fixture.claimable(NOW).await, [queued]);
    fixture.answer("a", "call").await;
    assert_eq!(fixture.claimable(NOW).await, [lease.run, queued]);
    assert_eq!(fixture.row("b").await.id, run_id("b"));
}

pub(crate) async fn many_runs_commit_at_once_and_each_log_is_in_order(mut fixture: Fixture) {
    const RUNS: usize = 64;
    const BATCHES: u64 = 20;
    let mut leases = Vec::new();
    for index in 0..RUNS {
        leases.push(fixture.started(&format!("r{index}")).await);
    }
    let mut writers = JoinSet::new();
    for &lease in &leases {
        let store = fixture.store();
        writers.spawn(async move {
            for seq in 2..2 + BATCHES {
                store
                    .commit(lease, batch(seq, seq, Next::Keep))
                    .await
                    .unwrap();
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
    fixture.reopen().await;
    let expected: Vec<(u64, u64)> = (1..2 + BATCHES).map(|seq| (seq, seq)).collect();
    for lease in leases {
        assert_eq!(fixture.seqs(lease.run).await, expected);
    }
}
