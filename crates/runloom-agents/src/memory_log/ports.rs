//! The engine's store ports over the logs in memory.

use async_trait::async_trait;
use runloom_engine::driver::WakeRuns;
use runloom_ports::store::{
    Batch, BudgetLimit, BudgetScope, BudgetState, Chunk, ClaimOutcome, Claimable, CommitError,
    Committed, CostRange, DayRange, Delivery, Lease, Ledger, Mail, MailNo, MicroUsd, Millis, Month,
    Reservation, RunLog, RunNo, StoreResult, UsageGroup, UsageRow, WorkspaceNo,
};

use super::{MemoryLog, letter, row_of};

impl WakeRuns for MemoryLog {
    fn wake(&self, delivery: Delivery, _workspace: WorkspaceNo) {
        let mut tree = self.0.lock();
        match delivery {
            Delivery::Owner(run) => {
                if let Some(notifier) = tree.notifiers.get(&row_of(run)) {
                    notifier.ring();
                }
            }
            Delivery::Queue(run) => tree.ready.push_back(row_of(run)),
        }
        if let Some(waker) = tree.waker.take() {
            waker.wake();
        }
    }
}

#[async_trait]
impl RunLog for MemoryLog {
    async fn claim(
        &self,
        run: RunNo,
        _worker: &str,
        now: Millis,
        _most: u32,
    ) -> StoreResult<ClaimOutcome> {
        let claim = self.0.lock().claim(row_of(run), now);
        Ok(claim.map_or(ClaimOutcome::NotNow, |claim| {
            ClaimOutcome::Claimed(Box::new(claim))
        }))
    }

    async fn commit(&self, lease: Lease, batch: Batch) -> Result<Committed, CommitError> {
        self.0.lock().commit(lease, batch)
    }

    async fn mail(&self, run: RunNo, after: MailNo) -> StoreResult<Vec<Mail>> {
        let tree = self.0.lock();
        let mail = tree.rows.get(row_of(run)).map(|row| &row.mail);
        let later = mail.into_iter().flatten().filter(|mail| mail.0 > after.0);
        Ok(later.map(letter).collect())
    }

    async fn read_log(&self, _: RunNo, _: u64, _: usize) -> StoreResult<Vec<Chunk>> {
        Ok(Vec::new())
    }

    async fn claimable(&self, _: Millis, _: u32, _: usize) -> StoreResult<Vec<Claimable>> {
        Ok(Vec::new())
    }

    async fn next_timer(&self) -> StoreResult<Option<Millis>> {
        Ok(self.next_wake())
    }

    async fn unheard(&self, _worker: &str) -> StoreResult<Vec<RunNo>> {
        Ok(Vec::new())
    }

    async fn heartbeat(&self, _worker: &str, _now: Millis) -> StoreResult<()> {
        Ok(())
    }
}

#[async_trait]
impl Ledger for MemoryLog {
    async fn reserve(
        &self,
        lease: Lease,
        budgets: &[BudgetLimit],
        cost: CostRange,
    ) -> StoreResult<Reservation> {
        let mut tree = self.0.lock();
        let index = row_of(lease.run);
        tree.settle(index, None);
        let mut amount = cost.most.0;
        for (budget, limit) in budgets.iter().enumerate() {
            let purse = tree
                .purses
                .get(&limit.scope.name())
                .copied()
                .unwrap_or_default();
            let left = limit
                .cap
                .0
                .saturating_sub(purse.spent)
                .saturating_sub(purse.reserved);
            if left < cost.least.0 {
                let state = BudgetState {
                    spent: MicroUsd(purse.spent),
                    reserved: MicroUsd(purse.reserved),
                };
                return Ok(Reservation::Refused { budget, state });
            }
            amount = amount.min(left);
        }
        let scopes: Vec<String> = budgets.iter().map(|limit| limit.scope.name()).collect();
        for scope in &scopes {
            let purse = tree.purses.entry(scope.clone()).or_default();
            purse.reserved = purse.reserved.saturating_add(amount);
        }
        tree.reservations.insert(index, (scopes, amount));
        Ok(Reservation::Granted(MicroUsd(amount)))
    }

    async fn budget(&self, scope: &BudgetScope, _month: Month) -> StoreResult<BudgetState> {
        let purse = self.0.lock().purses.get(&scope.name()).copied();
        let purse = purse.unwrap_or_default();
        Ok(BudgetState {
            spent: MicroUsd(purse.spent),
            reserved: MicroUsd(purse.reserved),
        })
    }

    async fn usage(
        &self,
        _: WorkspaceNo,
        _: DayRange,
        _: UsageGroup,
    ) -> StoreResult<Vec<UsageRow>> {
        Ok(Vec::new())
    }
}
