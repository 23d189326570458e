//! Contract tests of every queue.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use runloom_ports::queue::{Job, Queue};
use runloom_ports::store::{RunNo, WorkspaceNo};
use tokio::task::JoinSet;

/// Generates one test per behaviour. `$with` creates the queue and passes it to the test.
macro_rules! contract {
    ($with:ident: $($behaviour:ident),* $(,)?) => {$(
        #[tokio::test]
        async fn $behaviour() {
            $with($crate::queue::$behaviour).await;
        }
    )*};
    ($with:ident) => {
        $crate::queue::contract!($with:
            serves_jobs_of_a_workspace_in_order,
            serves_workspaces_in_turn,
            serves_a_new_workspace_before_the_backlog_of_others,
            queues_a_waiting_run_once,
            accepts_a_run_again_after_it_was_pulled,
            serves_jobs_without_a_workspace,
            pull_waits_for_a_push,
            dropped_pull_loses_no_job,
            many_pullers_get_every_job_once,
            refused_workspaces_keep_their_turn,
        );
    };
}
pub(crate) use contract;

pub(crate) fn job(workspace: i64, run: i64) -> Job {
    Job {
        run: RunNo(run),
        workspace: Some(WorkspaceNo(workspace)),
    }
}

/// Admits every workspace.
pub(crate) fn anyone(_: Option<WorkspaceNo>) -> bool {
    true
}

/// Pulls a job; fails instead of hanging.
pub(crate) async fn pull_only(queue: &dyn Queue) -> Job {
    tokio::time::timeout(Duration::from_secs(60), queue.pull(&anyone))
        .await
        .expect("a job comes")
}

/// Pulls a job and marks it as tried, as a worker does.
pub(crate) async fn pull(queue: &dyn Queue) -> Job {
    let job = pull_only(queue).await;
    queue.done(job);
    job
}

async fn pull_runs(queue: &dyn Queue, count: usize) -> Vec<i64> {
    let mut runs = Vec::new();
    for _ in 0..count {
        runs.push(pull(queue).await.run.0);
    }
    runs
}

pub(crate) async fn serves_jobs_of_a_workspace_in_order(queue: Arc<dyn Queue>) {
    for run in [3, 1, 2] {
        queue.push(job(1, run));
    }
    assert_eq!(pull_runs(&*queue, 3).await, [3, 1, 2]);
    assert_eq!(queue.depth(), 0);
}

pub(crate) async fn serves_workspaces_in_turn(queue: Arc<dyn Queue>) {
    for run in 10..14 {
        queue.push(job(1, run));
    }
    for run in 20..22 {
        queue.push(job(2, run));
    }
    assert_eq!(pull_runs(&*queue, 6).await, [10, 20, 11, 21, 12, 13]);
}

pub(crate) async fn serves_a_new_workspace_before_the_backlog_of_others(queue: Arc<dyn Queue>) {
    for run in 0..1_000 {
        queue.push(job(1, run));
    }
    queue.push(job(2, 5_000));
    assert!(pull_runs(&*queue, 2).await.contains(&5_000));
}

pub(crate) async fn queues_a_waiting_run_once(queue: Arc<dyn Queue>) {
    queue.push(job(1, 7));
    queue.push(job(1, 7));
    queue.push(Job {
        run: RunNo(7),
        workspace: None,
    });
    assert_eq!(queue.depth(), 1);
    assert_eq!(pull(&*queue).await, job(1, 7));
    assert_eq!(queue.depth(), 0);
}

pub(crate) async fn accepts_a_run_again_after_it_was_pulled(queue: Arc<dyn Queue>) {
    queue.push(job(1, 7));
    assert_eq!(pull(&*queue).await, job(1, 7));
    queue.push(job(1, 7));
    assert_eq!(pull(&*queue).await, job(1, 7));
}

pub(crate) async fn serves_jobs_without_a_workspace(queue: Arc<dyn Queue>) {
    let orphan = Job {
        run: RunNo(9),
        workspace: None,
    };
    queue.push(job(1, 1));
    queue.push(job(1, 2));
    queue.push(orphan);
    assert_eq!(pull_runs(&*queue, 3).await, [1, 9, 2]);
}

pub(crate) async fn pull_waits_for_a_push(queue: Arc<dyn Queue>) {
    let mut pullers = JoinSet::new();
    let puller = Arc::clone(&queue);
    pullers.spawn(async move { pull(&*puller).await });
    // Lets the puller run until it waits.
    tokio::task::yield_now().await;
    queue.push(job(1, 4));
    assert_eq!(pullers.join_next().await.unwrap().unwrap(), job(1, 4));
}

pub(crate) async fn dropped_pull_loses_no_job(queue: Arc<dyn Queue>) {
    // Each of these waits, is woken by the push, and is dropped before it can take the job.
    let mut abandoned: Vec<_> = (0..3).map(|_| queue.pull(&anyone)).collect();
    for future in &mut abandoned {
        let polled = std::future::poll_fn(|context| {
            std::task::Poll::Ready(future.as_mut().poll(context).is_pending())
        });
        assert!(polled.await, "nothing to pull yet");
    }
    queue.push(job(1, 1));
    queue.push(job(1, 2));
    drop(abandoned);
    assert_eq!(pull_runs(&*queue, 2).await, [1, 2]);
}

pub(crate) async fn many_pullers_get_every_job_once(queue: Arc<dyn Queue>) {
    let mut pullers = JoinSet::new();
    for _ in 0..16 {
        let queue = Arc::clone(&queue);
        pullers.spawn(async move { pull_runs(&*queue, 50).await });
    }
    for run in 0..800 {
        queue.push(job(run % 7, run));
        if run % 13 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let mut seen = BTreeSet::new();
    while let Some(runs) = pullers.join_next().await {
        for run in runs.unwrap() {
            assert!(seen.insert(run), "run {run} came twice");
        }
    }
    assert_eq!(seen.len(), 800);
}

pub(crate) async fn refused_workspaces_keep_their_turn(queue: Arc<dyn Queue>) {
    let not_the_first = |workspace| workspace != Some(WorkspaceNo(1));
    for next in [job(1, 10), job(1, 11), job(2, 20), job(2, 21)] {
        queue.push(next);
    }
    for run in [20, 21] {
        let pulled = tokio::time::timeout(Duration::from_secs(60), queue.pull(&not_the_first));
        let pulled = pulled.await.expect("a job comes");
        assert_eq!(pulled, job(2, run));
        queue.done(pulled);
    }
    let mut refused = queue.pull(&not_the_first);
    let waits = std::future::poll_fn(|context| {
        std::task::Poll::Ready(refused.as_mut().poll(context).is_pending())
    });
    assert!(waits.await, "no other workspace has a job");
    drop(refused);
    queue.push(job(2, 22));
    assert_eq!(pull_runs(&*queue, 3).await, [10, 22, 11]);
}
