//! A run that kills its worker again and again is given up after some attempts, and none of its neighbours is.

use std::time::Duration;

use crate::judge::judge;
use crate::load::Load;
use crate::random::{Random, seed};
use crate::replicas::Role;
use crate::report::Report;
use crate::script::{Script, Turn};
use crate::server::PATIENCE;
use crate::stage::{Stage, Topology};

#[test]
fn fails_a_run_that_kills_its_workers() {
    let roles = [(Role::Api, 1), (Role::Worker, 2)];
    let mut stage = Stage::start(Topology::PostgresAlone, &roles, &Vec::new());
    let deaths = stage.peers.deaths();
    let load = Load::new(&stage);
    let mut random = Random(seed());
    let mut alone = random.split();
    let deadly = Turn {
        deadly: true,
        ..Turn::default()
    };
    let script = Script::new("poison", vec![deadly]);
    let mut killed = 0;
    let book = load.during(&mut stage, random, 6, |stage, load| {
        std::thread::scope(|scope| {
            let poison = scope.spawn(|| load.plain(&script, &mut alone));
            while !poison.is_finished() {
                let Ok(asker) = deaths.recv_timeout(Duration::from_secs(1)) else {
                    assert!(stage.elapsed() < 2 * PATIENCE, "it goes on killing");
                    continue;
                };
                let at = stage.replicas.iter().position(|one| one.name == asker);
                let at = at.expect("one of the replicas");
                let process = stage.replicas[at].process();
                stage.say(&format!("{process} dies of it"));
                stage.kill(at);
                stage.audit.forget(&process);
                killed += 1;
            }
            poison.join().unwrap().unwrap();
        });
    });
    let mut report = Report::default();
    let found = judge(&mut stage, &load, book, &mut report);
    assert!(found.is_empty(), "{}", found.join("\n"));
    let ended = |how| report.ends.get(how).copied().unwrap_or_default();
    assert_eq!(ended("error"), 1, "{report:?}");
    assert!(ended("result") >= 1, "{report:?}");
    assert!(
        (5..=7).contains(&killed),
        "it was given up after {killed} deaths"
    );
    assert!(report.runs > 10, "{report:?}");
}
