//! Reservations: the worst-case cost of a model call is reserved before the call and settled after it.

use std::time::Duration;

use runloom_protocol::outcome::{ErrorClass, Tokens};
use tracing::{debug, warn};

use super::interrupt::TurnInterrupt;
use super::{Abandon, Driver};
use crate::run::{Bid, CallPlan, Note};
use runloom_ports::model::ModelError;
use runloom_ports::store::{
    BudgetLimit, BudgetScope, BudgetState, CostRange, MicroUsd, Millis, Month, Reservation,
};

/// Time that a call waits for money that other calls have reserved; most of them settle for less.
const WAIT_FOR_OTHERS: Duration = Duration::from_secs(20);
/// Pause between attempts meanwhile.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// Pause between attempts to reserve from a store that is unavailable.
const RETRY: Duration = Duration::from_millis(500);

/// Outcome of a reservation.
pub(super) enum Funding {
    /// The call may be made with this plan.
    Paid(CallPlan),
    /// A monthly budget cannot pay. The text names the budget, the amounts and when it refills.
    Short(String),
    /// The wait was interrupted.
    Interrupted(TurnInterrupt),
}

/// What a call that did not complete may cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Billing {
    /// What the provider reported.
    #[default]
    Reported,
    /// Up to the reservation: the provider has accepted the call, or may have, and may bill more than it reported.
    Possible,
}

impl Driver {
    /// Reserves the worst-case cost of the call in every monthly budget that applies. The reservation is durable when
    /// this returns.
    pub(super) async fn fund(&mut self, plan: CallPlan) -> Result<Funding, Abandon> {
        let Some(bid) = plan.bid else {
            return Ok(Funding::Paid(plan));
        };
        // The settlement of the last call must be durable first.
        self.journal.flush().await?;
        let mut output = bid.most;
        let mut amount = bid.worst(output);
        if self.has_shared_budgets() {
            match self.reserve(&bid).await? {
                Ok(granted) => {
                    // A grant pays for `least` at least.
                    output = bid.affordable(granted).unwrap_or(bid.least);
                    amount = granted;
                }
                Err(refused) => return Ok(refused),
            }
        }
        self.reserved = Some(amount);
        if self.state.plan.budgets.max_cost_usd.is_some() {
            let micro_usd = amount.0;
            self.note(Note::Reserved { micro_usd });
            self.journal.flush().await?;
        }
        Ok(Funding::Paid(CallPlan {
            max_output_tokens: Some(output),
            ..plan
        }))
    }

    fn has_shared_budgets(&self) -> bool {
        let above = self.planned.place.as_ref();
        !self.planned.monthly_budgets.is_empty() || above.is_some_and(|it| !it.budgets.is_empty())
    }

    /// Budgets that other runs share: of the workspace, the key and the ancestors.
    fn shared_budgets(&self, now: Millis) -> Vec<BudgetLimit> {
        let monthly = self.planned.monthly_budgets.iter();
        let monthly = monthly.map(|monthly_budget| monthly_budget.at(now));
        let above = self.planned.place.iter().flat_map(|place| &place.budgets);
        let above = above.map(|above| BudgetLimit {
            scope: BudgetScope::Run(above.run.clone()),
            cap: MicroUsd(above.cap_micro),
            // A run's budget does not refill.
            month: Month(0),
        });
        monthly.chain(above).collect()
    }

    async fn reserve(&mut self, bid: &Bid) -> Result<Result<MicroUsd, Funding>, Abandon> {
        let ask = CostRange {
            least: bid.worst(bid.least),
            most: bid.worst(bid.most),
        };
        let give_up = tokio::time::Instant::now() + WAIT_FOR_OTHERS;
        loop {
            let now = self.clock.now();
            let limits = self.shared_budgets(now);
            let pause = match self.journal.reserve(&limits, ask).await {
                Ok(Reservation::Granted(amount)) => return Ok(Ok(amount)),
                Ok(Reservation::Fenced) => return Err(Abandon::Fenced),
                Ok(Reservation::Refused { budget, state }) => {
                    let Some(limit) = limits.get(budget) else {
                        return Err(Abandon::Fenced);
                    };
                    let lent = state.spent.plus(ask.least) <= limit.cap;
                    if !lent || tokio::time::Instant::now() >= give_up {
                        return Ok(Err(Funding::Short(refusal(limit, state, ask))));
                    }
                    debug!("waiting for reserved money of other calls");
                    LOOK_AGAIN
                }
                Err(error) => {
                    warn!(%error, "reservation failed; retrying");
                    RETRY
                }
            };
            if let Some(interrupt) = self.pause(pause).await? {
                return Ok(Err(Funding::Interrupted(interrupt)));
            }
        }
    }

    /// Records a call that did not complete.
    pub(super) fn record_attempt(&mut self, tokens: Tokens, billing: Billing) {
        let price = self.state.current_model().price;
        let told = price.map(|price| price.micro(&tokens)).unwrap_or_default();
        let reserved = self.reserved.take();
        let spent = reserved.map(|reserved| match billing {
            Billing::Possible => reserved.max(told),
            Billing::Reported => told,
        });
        let Some(spent) = spent else {
            if tokens != Tokens::default() {
                self.count(&tokens, 0);
                self.note(Note::Attempt { tokens, lost: 0 });
            }
            return;
        };
        self.count(&tokens, 0);
        self.journal.settle(spent);
        let lost = spent.minus(told).0;
        self.note(Note::Attempt { tokens, lost });
    }

    /// Settles a call that completed, and adds it to the account.
    pub(super) fn account(&mut self, tokens: &Tokens) {
        self.count(tokens, 1);
        if *tokens == Tokens::default() {
            // The provider did not report usage, but it may bill.
            self.record_attempt(*tokens, Billing::Possible);
        } else if self.reserved.take().is_some() {
            let price = self.state.current_model().price;
            let spent = price.map(|price| price.micro(tokens));
            self.journal.settle(spent.unwrap_or_default());
        }
    }

    /// US dollars of these tokens; `None` when the model has no price.
    pub(super) fn price_of(&self, tokens: &Tokens) -> Option<f64> {
        let price = self.state.current_model().price?;
        Some(price.pico(tokens) as f64 / 1e12)
    }

    fn count(&mut self, tokens: &Tokens, turns: u32) {
        let price = self.state.current_model().price;
        let cost = price.map_or(0, |price| price.pico(tokens));
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        self.journal.count(tokens, cost, turns);
    }
}

/// The error of a run whose monthly budget is used up.
pub(super) fn exceeded(message: String) -> ModelError {
    ModelError::new(ErrorClass::BudgetExceeded, message)
}

fn refusal(limit: &BudgetLimit, state: BudgetState, ask: CostRange) -> String {
    let BudgetLimit { scope, cap, month } = limit;
    let BudgetState { spent, reserved } = state;
    if let BudgetScope::Run(_) = scope {
        return format!(
            "budgets.maxCostUsd of {scope} leaves {cap} to the runs below it and cannot pay for another model call: {spent} is \
             spent, {reserved} is reserved for calls under way, and the call may cost {}; a run's own budget does not refill",
            ask.least,
        );
    }
    format!(
        "the monthly budget of {scope} ({cap}) cannot pay for another model call: {spent} is spent in {month}, {reserved} is \
         reserved for calls under way, and the call may cost {}; it refills at {}",
        ask.least,
        month.ends_at(),
    )
}
