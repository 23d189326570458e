//! What happens to whom, and when: everything once in the short form, at random in the long one.

use std::time::{Duration, Instant, SystemTime};

use crate::gate::Pace;
use crate::load::Load;
use crate::random::Random;
use crate::replicas::{Death, Role};
use crate::report::Report;
use crate::services::{Rabbit, Valkey};
use crate::stage::{Stage, Topology};

/// How long a worker stands still: long enough for others to take its runs over.
const FROZEN: Duration = Duration::from_secs(11);
/// How long an API stands still, or a link does not work.
const BROKEN: Duration = Duration::from_millis(1500);
const LATE: Duration = Duration::from_millis(40);

/// Something that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    KillWorker,
    KillApi,
    FreezeWorker,
    FreezeApi,
    RestartPostgres,
    RestartRabbitmq,
    RestartValkey,
    CutLink,
    CloseLink,
    SlowLinks,
    StopLink,
    PurgeQueue,
    FlushAll,
    RollingRestart,
}

impl Fault {
    const ALL: [(Self, &'static str); 14] = [
        (Self::KillWorker, "kill-worker"),
        (Self::KillApi, "kill-api"),
        (Self::FreezeWorker, "freeze-worker"),
        (Self::FreezeApi, "freeze-api"),
        (Self::RestartPostgres, "restart-postgres"),
        (Self::RestartRabbitmq, "restart-rabbitmq"),
        (Self::RestartValkey, "restart-valkey"),
        (Self::CutLink, "cut-link"),
        (Self::CloseLink, "close-link"),
        (Self::SlowLinks, "slow-links"),
        (Self::StopLink, "stop-link"),
        (Self::PurgeQueue, "purge-queue"),
        (Self::FlushAll, "flush-all"),
        (Self::RollingRestart, "rolling-restart"),
    ];

    fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(fault, _)| *fault == self);
        named.map_or("", |(_, name)| name)
    }

    /// Those that can happen in a topology, or those of them that are named.
    pub(crate) fn chosen(topology: Topology, only: Option<&str>) -> Vec<Self> {
        let full = [
            Self::RestartRabbitmq,
            Self::RestartValkey,
            Self::PurgeQueue,
            Self::FlushAll,
        ];
        if let Some(unknown) = only
            .into_iter()
            .flat_map(|only| only.split(','))
            .find(|name| !Self::ALL.iter().any(|(_, known)| known == name))
        {
            let known = Self::ALL.map(|(_, name)| name).join(", ");
            panic!("there is no fault {unknown:?}; the faults are {known}");
        }
        Self::ALL
            .iter()
            .filter(|(fault, _)| topology == Topology::Full || !full.contains(fault))
            .filter(|(_, name)| only.is_none_or(|only| only.split(',').any(|one| one == *name)))
            .map(|(fault, _)| *fault)
            .collect()
    }
}

/// Chance, and what it did.
pub(crate) struct Plan<'a> {
    pub(crate) random: Random,
    pub(crate) faults: Vec<Fault>,
    pub(crate) report: &'a mut Report,
    frozen: Option<(usize, Instant)>,
}

impl<'a> Plan<'a> {
    pub(crate) fn new(random: Random, faults: Vec<Fault>, report: &'a mut Report) -> Self {
        Self {
            random,
            faults,
            report,
            frozen: None,
        }
    }

    /// Every fault once: those that take long first, a deploy last, the others in any order.
    pub(crate) fn once(&mut self, stage: &mut Stage, load: &Load) {
        let mut left = self.faults.clone();
        let rank = |fault: &Fault| match fault {
            Fault::FreezeWorker => 0,
            Fault::RollingRestart => 2,
            _ => 1,
        };
        let mut order = Vec::new();
        while !left.is_empty() {
            order.push(left.swap_remove(self.below(left.len())));
        }
        order.sort_by_key(rank);
        load.clients.wait(200, Duration::from_secs(5));
        for fault in order {
            self.strike(fault, stage, load);
            load.clients.wait(150, Duration::from_secs(2));
        }
        self.thaw(stage, load);
    }

    /// Faults at random until the time is up.
    pub(crate) fn until(&mut self, end: Instant, stage: &mut Stage, load: &Load) {
        while Instant::now() < end {
            let at = self.below(self.faults.len());
            let fault = self.faults[at];
            self.strike(fault, stage, load);
            let calm = self.random.below(400);
            load.clients.wait(calm, Duration::from_secs(5));
        }
        self.thaw(stage, load);
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.random.below(limit as u64)).unwrap_or(0)
    }

    /// A running process of this kind that does not stand still.
    fn one(&mut self, stage: &Stage, wanted: impl Fn(Role) -> bool) -> usize {
        let frozen = self.frozen.map(|(at, _)| at);
        let mut running = stage.running(wanted);
        running.retain(|at| Some(*at) != frozen);
        running[self.below(running.len())]
    }

    fn strike(&mut self, fault: Fault, stage: &mut Stage, load: &Load) {
        if self
            .frozen
            .is_some_and(|(_, since)| since.elapsed() > FROZEN)
        {
            self.thaw(stage, load);
        }
        *self.report.faults.entry(fault.name()).or_default() += 1;
        let accepted = load.accepted();
        let say = |stage: &Stage, whom: &str| {
            let name = fault.name();
            stage.say(&format!("{name} {whom} ({accepted} runs so far)"));
        };
        match fault {
            Fault::KillWorker | Fault::KillApi => {
                let wanted = if fault == Fault::KillApi {
                    Role::Api
                } else {
                    Role::Worker
                };
                let at = self.one(stage, |role| role == wanted);
                say(stage, &stage.replicas[at].process());
                stage.kill(at);
            }
            Fault::FreezeWorker => {
                self.thaw(stage, load);
                let at = self.one(stage, |role| role == Role::Worker);
                say(stage, &stage.replicas[at].process());
                self.freeze(at, stage);
            }
            Fault::FreezeApi => {
                let at = self.one(stage, |role| role == Role::Api);
                say(stage, &stage.replicas[at].process());
                stage.replicas[at].signal("STOP");
                load.clients.wait(u64::MAX >> 1, BROKEN);
                stage.replicas[at].signal("CONT");
            }
            Fault::RollingRestart => {
                self.thaw(stage, load);
                for at in stage.running(|_| true) {
                    say(stage, &stage.replicas[at].process());
                    stage.replicas[at].stop();
                    stage.replicas[at].start();
                }
            }
            Fault::CutLink | Fault::CloseLink | Fault::SlowLinks | Fault::StopLink => {
                self.break_links(fault, stage, load);
            }
            Fault::PurgeQueue => {
                say(stage, "");
                purge(stage, load);
            }
            _ => {
                say(stage, "");
                service(fault, stage);
            }
        }
    }

    fn break_links(&mut self, fault: Fault, stage: &Stage, load: &Load) {
        let at = self.one(stage, |_| true);
        let replica = &stage.replicas[at];
        let names = replica.links.names();
        let link = names[self.below(names.len())];
        let whom = format!("{} from {}", link, replica.process());
        stage.say(&format!(
            "{} {whom} ({} runs so far)",
            fault.name(),
            load.accepted()
        ));
        let gate = replica.links.named(link);
        let rest = |time| load.clients.wait(u64::MAX >> 1, time);
        match fault {
            Fault::CutLink => gate.cut(),
            Fault::CloseLink => {
                stage.runtime.block_on(gate.close());
                rest(BROKEN);
                gate.open();
            }
            Fault::SlowLinks => {
                let all = || names.iter().map(|name| replica.links.named(name));
                all().for_each(|gate| gate.pace(Pace::Late(LATE)));
                rest(BROKEN);
                all().for_each(|gate| gate.pace(Pace::Free));
            }
            _ => {
                gate.pace(Pace::Stopped);
                // Sometimes longer than others wait for a sign of life.
                rest(BROKEN * if self.random.below(4) == 0 { 7 } else { 1 });
                gate.pace(Pace::Free);
            }
        }
    }

    /// A worker stands still; others find its runs when it was silent for long enough.
    pub(crate) fn freeze(&mut self, at: usize, stage: &mut Stage) {
        stage.replicas[at].signal("STOP");
        self.frozen = Some((at, Instant::now()));
        let death = Death {
            process: stage.replicas[at].process(),
            at: SystemTime::now(),
        };
        stage.deaths.push(death);
    }

    /// Lets the one that stands still go on, not before its time.
    fn thaw(&mut self, stage: &Stage, load: &Load) {
        if let Some((at, since)) = self.frozen.take() {
            let rest = FROZEN.saturating_sub(since.elapsed());
            load.clients.wait(u64::MAX >> 1, rest);
            stage.say(&format!("{} goes on", stage.replicas[at].process()));
            stage.replicas[at].signal("CONT");
        }
    }
}

/// Throws the queue's messages away. Workers are quick, so they are kept from it until some are there.
fn purge(stage: &Stage, load: &Load) {
    let Some(rabbit) = &stage.rabbit else {
        return;
    };
    let workers = stage.running(|role| role == Role::Worker);
    let gates = || {
        let of = |at: &usize| stage.replicas[*at].links.named("rabbitmq");
        workers.iter().map(of)
    };
    for gate in gates() {
        stage.runtime.block_on(gate.close());
    }
    load.clients.wait(u64::MAX >> 1, BROKEN);
    let thrown_away = rabbit.purge(&stage.runtime);
    stage.say(&format!("{thrown_away} messages were thrown away"));
    gates().for_each(crate::gate::Gate::open);
}

/// What happens to a service.
fn service(fault: Fault, stage: &mut Stage) {
    match fault {
        Fault::RestartPostgres => {
            stage.postgres.down();
            stage.postgres.up();
        }
        Fault::RestartRabbitmq => stage.rabbit.iter_mut().for_each(Rabbit::restart),
        Fault::RestartValkey => stage.valkey.iter_mut().for_each(Valkey::restart),
        _ => stage.valkey.iter().for_each(Valkey::flush),
    }
}
