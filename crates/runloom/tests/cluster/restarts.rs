//! Any process serves any request, and each of them can be replaced at any time.

use serde_json::{Value, json};

use crate::http::Api;
use crate::processes::{Processes, agent, at, finished, soon};
use crate::server::Server;
use crate::sse::{Frame, Stream, replay, until};

#[test]
fn three_processes_serve_one_run() {
    let processes = Processes::new([("RUNLOOM_RUNS__PARK_AFTER_MS", "1")]);
    let (first, second) = (processes.api(), processes.api());
    let _workers = [processes.worker(), processes.worker()];
    let here = first.tenant("acme");
    let there = at(&second, &here);
    let run = here.run(&agent("call act {\"n\":1}\nsay done"));
    let mut stream = Stream::open(&here, &run, 0).unwrap().unwrap();
    let call = until(&mut stream, "local_tool_call").data();
    let answer = json!({"toolUseId": call["toolUseId"], "result": "it is done"});
    let taken = there.post(&format!("/agent-runs/{run}/tool-results"), &answer);
    assert_eq!(taken.status, 200, "{taken:?}");
    until(&mut stream, "local_tool_result_in");
    assert_eq!(finished(&there, &run), "done");
    let (one, other) = (replay(&here, &run).unwrap(), replay(&there, &run).unwrap());
    assert!(
        one.iter()
            .map(Frame::json)
            .eq(other.iter().map(Frame::json))
    );
}

#[test]
fn cancels_at_another_process() {
    let processes = Processes::new([]);
    let (first, second) = (processes.api(), processes.api());
    let _worker = processes.worker();
    let here = first.tenant("acme");
    let run = here.run(&agent("slow 60s\nsay never"));
    let mut stream = Stream::open(&here, &run, 0).unwrap().unwrap();
    until(&mut stream, "started");
    let path = format!("/agent-runs/{run}/cancel");
    let there = at(&second, &here);
    assert_eq!(there.send("POST", &path, &[], b"").unwrap().status, 200);
    until(&mut stream, "cancelled");
}

#[test]
fn cancels_a_waiting_run_without_workers() {
    let processes = Processes::new([]);
    let (first, second) = (processes.api(), processes.api());
    let here = first.tenant("acme");
    let run = here.run(&agent("say never"));
    let mut stream = Stream::open(&here, &run, 0).unwrap().unwrap();
    let path = format!("/agent-runs/{run}/cancel");
    let there = at(&second, &here);
    assert_eq!(there.send("POST", &path, &[], b"").unwrap().status, 200);
    until(&mut stream, "cancelled");
    let snapshot = there.get(&format!("/agent-runs/{run}")).json();
    assert_eq!(snapshot["status"], "cancelled", "{snapshot}");
}

#[test]
fn killed_worker_is_taken_over() {
    let processes = Processes::new([]);
    let api = processes.api();
    let mut worker = processes.worker();
    let acme = api.tenant("acme");
    let run = acme.run(&agent("slow 20ms\ntokens 400"));
    let mut stream = Stream::open(&acme, &run, 0).unwrap().unwrap();
    until(&mut stream, "assistant_delta");
    worker.kill();
    let _next = processes.worker();
    until(&mut stream, "turn_restarted");
    until(&mut stream, "result");
}

/// One client of a run: follows it over whichever process answers, and answers its calls.
fn follow(addresses: &[Api], run: &str) -> Vec<Frame> {
    let mut seen: Vec<Frame> = Vec::new();
    for api in addresses.iter().cycle() {
        let last = seen.last().map_or(0, Frame::seq);
        let Ok(Ok(mut stream)) = Stream::open(api, run, last) else {
            std::thread::yield_now();
            continue;
        };
        while let Ok(Some(frame)) = stream.next() {
            let call = (frame.kind() == "local_tool_call").then(|| frame.data());
            let terminal = frame.is_terminal();
            seen.push(frame);
            if terminal {
                return seen;
            }
            if let Some(call) = call {
                answer(addresses, run, &call);
            }
        }
    }
    unreachable!("the addresses never end")
}

fn answer(addresses: &[Api], run: &str, call: &Value) {
    let body = json!({"toolUseId": call["toolUseId"], "result": "ok"}).to_string();
    let path = format!("/agent-runs/{run}/tool-results");
    for api in addresses.iter().cycle() {
        match api.send("POST", &path, &[], body.as_bytes()) {
            Ok(answer) if answer.status == 200 => return,
            // An earlier try was taken, and nobody could say so.
            Ok(answer) => return assert_eq!(answer.status, 404, "{answer:?}"),
            Err(_) => std::thread::yield_now(),
        }
    }
}

#[test]
fn rolling_restart_keeps_streams() {
    let processes = Processes::new([("RUNLOOM_RUNS__DRAIN_MS", "200")]);
    let mut fixed = [processes.api(), processes.api()];
    let mut workers = [processes.worker(), processes.worker()];
    let acme = fixed[0].tenant("acme");
    let prompt = "call act {\"n\":1}\ncall act {\"n\":2}\nslow 15ms\ntokens 300";
    let runs: Vec<String> = (0..8).map(|_| acme.run(&agent(prompt))).collect();
    // A client knows one address for each process, as behind a balancer: those of the ones that stop and of those
    // that follow.
    let replaced = processes.api();
    let addresses = [acme.clone(), at(&fixed[1], &acme), at(&replaced, &acme)];
    let logs: Vec<Vec<Frame>> = std::thread::scope(|scope| {
        let following: Vec<_> = runs
            .iter()
            .map(|run| scope.spawn(|| follow(&addresses, run)))
            .collect();
        for worker in &mut workers {
            replace(worker, processes.worker());
        }
        for api in &mut fixed {
            let status = api.stop();
            assert_eq!(status.code(), Some(0), "{}", api.said());
        }
        following
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let judge = at(&replaced, &acme);
    for (run, seen) in runs.iter().zip(logs) {
        let log = replay(&judge, run).unwrap();
        let seqs: Vec<u64> = log.iter().map(Frame::seq).collect();
        assert!(seqs.iter().copied().eq(1..=seqs.len() as u64), "{seqs:?}");
        assert!(seen.iter().map(Frame::json).eq(log.iter().map(Frame::json)));
        assert_eq!(log.last().unwrap().kind(), "result");
        assert_eq!(log.iter().filter(|frame| frame.is_terminal()).count(), 1);
    }
}

/// Asks a process to stop once its successor is there.
fn replace(old: &mut Server, new: Server) {
    let mut old = std::mem::replace(old, new);
    let status = old.stop();
    assert_eq!(status.code(), Some(0), "{}", old.said());
}

#[test]
fn stopping_process_is_not_ready() {
    let processes = Processes::new([("RUNLOOM_RUNS__DRAIN_MS", "30000")]);
    let mut api = processes.process("all", &[]);
    let acme = api.tenant("acme");
    let run = acme.run(&agent("slow 50ms\ntokens 60"));
    let mut stream = Stream::open(&acme, &run, 0).unwrap().unwrap();
    until(&mut stream, "assistant_delta");
    let ready = |server: &Server| {
        let answer = crate::http::request(&server.address, "GET", "/ready", &[], b"");
        answer.map_or(503, |answer| answer.status)
    };
    assert_eq!(ready(&api), 200);
    api.signal("TERM");
    soon("it is not ready", || ready(&api) == 503);
    until(&mut stream, "result");
    assert_eq!(api.ended().code(), Some(0));
}
