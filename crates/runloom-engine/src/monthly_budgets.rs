//! The monthly budgets that the configuration gives to workspaces and keys.

use std::collections::HashMap;

use runloom_ports::store::{BudgetLimit, BudgetScope, MicroUsd, Millis, Month};

/// Every monthly budget of the server.
#[derive(Debug, Clone, Default)]
pub struct MonthlyBudgets {
    /// By slug.
    pub workspaces: HashMap<String, MicroUsd>,
    /// By id of the key.
    pub keys: HashMap<String, MicroUsd>,
}

/// A monthly_budget without its month.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonthlyBudget {
    /// The owner: a workspace or a key.
    pub scope: BudgetScope,
    /// How much in a month.
    pub cap: MicroUsd,
}

impl MonthlyBudgets {
    /// The monthly_budgets that pay for the runs of a key in a workspace.
    #[must_use]
    pub fn of(&self, workspace: &str, key: Option<&str>) -> Vec<MonthlyBudget> {
        let own = self.workspaces.get(workspace).map(|&cap| MonthlyBudget {
            scope: BudgetScope::Workspace(workspace.to_owned()),
            cap,
        });
        let of_key = key.and_then(|id| {
            let cap = *self.keys.get(id)?;
            let scope = BudgetScope::Key(id.to_owned());
            Some(MonthlyBudget { scope, cap })
        });
        own.into_iter().chain(of_key).collect()
    }
}

impl MonthlyBudget {
    /// The same in the month of a moment.
    #[must_use]
    pub fn at(&self, now: Millis) -> BudgetLimit {
        BudgetLimit {
            scope: self.scope.clone(),
            cap: self.cap,
            month: Month::of(now),
        }
    }
}
