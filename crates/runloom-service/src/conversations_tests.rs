//! What is remembered of sessions, and when it is all of it.

use super::*;
use runloom_protocol::spec::Role;

const OURS: WorkspaceNo = WorkspaceNo(1);

fn said(text: &str) -> PromptMessage {
    PromptMessage::new(Role::User, text.to_owned())
}

fn last_word(messages: &[PromptMessage]) -> RunTail {
    RunTail {
        messages: messages.to_vec(),
        active_model: None,
    }
}

fn session(name: &str) -> SessionId {
    SessionId::from_suffix(name.to_owned())
}

fn run(name: &str) -> RunId {
    RunId::from_suffix(name.to_owned())
}

/// A memory of one session of ours whose run "1" is under way.
fn waiting_for_the_first_run() -> Conversations {
    let memory = Conversations::default();
    let empty = memory.take(&session("a"), OURS).of(OURS, "spec".into());
    memory.put(session("a"), empty.awaiting(run("1")));
    memory
}

#[test]
fn what_follows_is_added_and_nothing_is_read_twice() {
    let memory = Conversations::default();
    let first = memory
        .take(&session("a"), OURS)
        .followed_by(&[said("1"), said("2")]);
    memory.put(session("a"), first);
    let again = memory.take(&session("a"), OURS);
    assert_eq!(again.count, 2);
    let more = again.followed_by(&[said("3")]);
    assert_eq!((more.count, more.messages.len()), (3, 3));
}

#[test]
fn after_the_awaited_run_nobody_has_to_be_asked() {
    let memory = waiting_for_the_first_run();
    assert_eq!(
        memory.take(&session("a"), OURS).settled(Instant::now()),
        None
    );
    let memory = waiting_for_the_first_run();
    memory.ended(session("a"), &run("1"), &last_word(&[said("1"), said("2")]));
    let settled = memory.take(&session("a"), OURS);
    assert_eq!(settled.settled(Instant::now()).as_deref(), Some("spec"));
    assert_eq!((settled.count, settled.messages.len()), (2, 2));
    assert_eq!(settled.awaiting(run("2")).settled(Instant::now()), None);
}

#[test]
fn a_run_that_said_nothing_settles_too() {
    let memory = waiting_for_the_first_run();
    memory.ended(session("a"), &run("1"), &RunTail::default());
    let settled = memory.take(&session("a"), OURS);
    assert!(settled.settled(Instant::now()).is_some());
    assert_eq!(settled.count, 0);
}

#[test]
fn the_model_that_a_run_moved_on_to_stays() {
    let memory = waiting_for_the_first_run();
    let moved = RunTail {
        active_model: Some("spare".to_owned()),
        ..last_word(&[])
    };
    memory.ended(session("a"), &run("1"), &moved);
    let kept = memory.take(&session("a"), OURS);
    assert_eq!(kept.active_model.as_deref(), Some("spare"));
    memory.put(session("a"), kept.awaiting(run("2")));
    memory.ended(session("a"), &run("2"), &last_word(&[said("2")]));
    let kept = memory.take(&session("a"), OURS);
    assert_eq!(kept.active_model.as_deref(), Some("spare"));
}

#[test]
fn what_is_known_of_a_session_that_may_have_been_deleted_is_asked_for_again() {
    let memory = waiting_for_the_first_run();
    memory.ended(session("a"), &run("1"), &last_word(&[said("1")]));
    let remembered = memory.take(&session("a"), OURS);
    let day = Duration::from_secs(24 * 3600);
    assert_eq!(remembered.settled(Instant::now() + day), None);
    assert_eq!(remembered.count, 1, "what was said stays true");
}

#[test]
fn another_workspace_neither_sees_nor_disturbs_what_is_remembered() {
    let memory = waiting_for_the_first_run();
    let rival = memory.take(&session("a"), WorkspaceNo(2));
    assert_eq!((rival.count, rival.settled(Instant::now())), (0, None));
    memory.ended(session("a"), &run("1"), &last_word(&[said("1")]));
    assert_eq!(memory.take(&session("a"), OURS).count, 1);
}

#[test]
fn the_end_of_a_run_that_nobody_awaits_changes_nothing() {
    let memory = waiting_for_the_first_run();
    memory.ended(session("a"), &run("0"), &last_word(&[said("late")]));
    memory.ended(session("b"), &run("1"), &last_word(&[said("forgotten")]));
    let kept = memory.take(&session("a"), OURS);
    assert_eq!((kept.count, kept.settled(Instant::now())), (0, None));
    assert_eq!(memory.take(&session("b"), OURS).count, 0);
}

#[test]
fn memory_is_bounded_and_keeps_what_is_used() {
    let memory = Conversations::with_room(16 * 1024);
    let text = "x".repeat(900);
    for n in 0..100 {
        memory.put(
            session(&format!("s{n}")),
            Remembered::default().followed_by(&[said(&text)]),
        );
        let kept = memory.take(&session("s0"), OURS);
        assert_eq!(kept.count, 1, "asked for all the time, at {n}");
        memory.put(session("s0"), kept);
    }
    assert!(memory.sessions() <= 8);
}

#[test]
fn sessions_in_which_nothing_was_said_take_room_too() {
    let memory = Conversations::with_room(8 * 1024);
    for n in 0..1000 {
        memory.put(session(&format!("s{n}")), Remembered::default());
    }
    assert!(memory.sessions() <= 8 * 1024 / SESSION_BYTES);
}

#[test]
fn a_conversation_larger_than_the_room_is_not_kept() {
    let memory = Conversations::with_room(1024);
    let large = Remembered::default().followed_by(&[said(&"x".repeat(2000))]);
    memory.put(session("a"), large);
    assert_eq!(memory.take(&session("a"), OURS).count, 0);
}

impl Conversations {
    fn sessions(&self) -> usize {
        let generations = self.lock();
        generations.young.len() + generations.old.len()
    }
}
