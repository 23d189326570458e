//! What is new in a request.

use runloom_protocol::id::RunId;
use runloom_protocol::resource::HistoryMetadata;
use serde_json::json;

use super::*;

fn stored_message(id: &str, role: HistoryRole, text: &str) -> HistoryMessage {
    HistoryMessage {
        id: id.to_owned(),
        role,
        content: Some(text.to_owned()).filter(|text| !text.is_empty()),
        tool_calls: Vec::new(),
        tool_call_id: None,
        metadata: HistoryMetadata {
            run_id: RunId::parse("run_a").unwrap(),
            created_at: String::new(),
            tool: Default::default(),
        },
    }
}

/// A user's question, and a turn that called a tool of the front end.
fn view() -> ThreadView {
    ThreadView {
        messages: vec![
            stored_message("u1", HistoryRole::User, "hi"),
            stored_message("msg_a_2", HistoryRole::Assistant, ""),
        ],
        runs: HashSet::from([RunId::parse("run_a").unwrap()]),
        ..ThreadView::empty()
    }
}

fn user(id: &str, text: &str) -> InputMessage {
    InputMessage {
        id: id.to_owned(),
        body: MessageBody::User {
            text: text.to_owned(),
            attachments: Vec::new(),
        },
    }
}

fn assistant(id: &str, text: &str, calls: usize) -> InputMessage {
    InputMessage {
        id: id.to_owned(),
        body: MessageBody::Assistant {
            text: text.to_owned(),
            calls,
        },
    }
}

fn tool(id: &str, call: &str, error: Option<&str>) -> InputMessage {
    InputMessage {
        id: id.to_owned(),
        body: MessageBody::Tool {
            tool_call_id: call.to_owned(),
            text: "blue".to_owned(),
            error: error.map(str::to_owned),
        },
    }
}

fn instruction(id: &str) -> InputMessage {
    InputMessage {
        id: id.to_owned(),
        body: MessageBody::Instruction {
            text: "x".to_owned(),
            sent: json!({}),
        },
    }
}

fn found(view: &ThreadView, input: &[InputMessage]) -> (Vec<String>, Vec<String>, bool) {
    let pending = ["tu_1".to_owned(), "tu_2".to_owned()];
    let news = news(view, &pending, input);
    let messages = news.messages.into_iter().map(|new| new.id).collect();
    let answers = news.answers.into_iter().map(|new| new.message_id).collect();
    (messages, answers, news.differs)
}

#[test]
fn messages_after_the_last_known_one_are_new() {
    let known = [user("u1", "hi"), assistant("msg_a_2", "", 1)];
    let with = |more: Vec<InputMessage>| [&known[..], &more].concat();
    let table = [
        (with(vec![]), vec![], vec![], false),
        (with(vec![user("u2", "x")]), vec!["u2"], vec![], false),
        (with(vec![instruction("s")]), vec![], vec![], false),
        (
            with(vec![tool("t1", "tu_1", None)]),
            vec![],
            vec!["t1"],
            false,
        ),
        (
            with(vec![tool("t1", "tu_1", None), user("u2", "x")]),
            vec!["u2"],
            vec!["t1"],
            false,
        ),
        (
            with(vec![assistant("x1", "told elsewhere", 0), user("u2", "x")]),
            vec!["x1", "u2"],
            vec![],
            false,
        ),
    ];
    for (input, messages, answers, differs) in table {
        let expected = (
            messages.into_iter().map(str::to_owned).collect(),
            answers.into_iter().map(str::to_owned).collect(),
            differs,
        );
        assert_eq!(found(&view(), &input), expected, "{input:?}");
    }
}

#[test]
fn what_this_server_did_not_make_is_dropped() {
    let known = [user("u1", "hi"), assistant("msg_a_2", "", 1)];
    for (more, messages) in [
        (vec![tool("t9", "tu_9", None)], vec![]),
        (vec![assistant("x1", "", 2), user("u2", "x")], vec!["u2"]),
        (
            vec![user("u2", "x"), assistant("x1", "not mine", 0)],
            vec!["u2"],
        ),
        (vec![assistant("x1", "not mine", 0)], vec![]),
    ] {
        let input = [&known[..], &more].concat();
        let (new, answers, differs) = found(&view(), &input);
        assert_eq!(new, messages, "{input:?}");
        assert!(answers.is_empty() && differs, "{input:?}");
    }
}

#[test]
fn a_partial_message_of_this_server_is_not_new() {
    let input = [
        user("u1", "hi"),
        assistant("msg_a_2", "", 1),
        assistant("msg_a_7", "Half an ans", 0),
        user("u2", "x"),
    ];
    assert_eq!(
        found(&view(), &input),
        (vec!["u2".to_owned()], vec![], true)
    );
}

#[test]
fn a_result_is_found_wherever_it_stands_and_counts_once() {
    let mut view = view();
    view.messages
        .push(stored_message("t2", HistoryRole::Tool, "blue"));
    let input = [
        user("u1", "hi"),
        assistant("msg_a_2", "", 1),
        tool("t1", "tu_1", None),
        tool("t2", "tu_2", None),
        tool("t3", "tu_1", None),
    ];
    let (_, answers, differs) = found(&view, &input);
    assert_eq!((answers, differs), (vec!["t1".to_owned()], true));
    let failed = [tool("t1", "tu_1", Some("no screen"))];
    let news = news(&view, &["tu_1".to_owned()], &failed);
    let expected = ToolAnswer::Error("no screen".to_owned());
    assert_eq!(news.answers[0].answer, expected);
}

#[test]
fn a_client_that_has_other_messages_differs() {
    for input in [
        vec![user("u1", "hi")],
        vec![],
        vec![user("u1", "changed"), assistant("msg_a_2", "", 1)],
        vec![assistant("msg_a_2", "", 1), user("u1", "hi")],
        vec![user("u9", "only what is new")],
    ] {
        assert!(found(&view(), &input).2, "{input:?}");
    }
}
