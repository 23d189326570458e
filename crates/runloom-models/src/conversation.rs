//! What every API that keeps instructions apart from the conversation needs to know of it.

use runloom_core::ports::model::Message;

/// The instructions that stand before anything was said, which belong to the system prompt, and the messages after them.
pub(crate) fn split_instructions(messages: &[Message]) -> (Vec<&str>, &[Message]) {
    let mut instructions = Vec::new();
    let mut rest = messages;
    while let [Message::System { text }, after @ ..] = rest {
        instructions.push(&**text);
        rest = after;
    }
    (instructions, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_instructions_at_the_beginning_are_taken_out() {
        let system = |text: &str| Message::System { text: text.into() };
        let user = Message::User { text: "hi".into() };
        let messages = [system("a"), system("b"), user.clone(), system("c")];
        let (instructions, rest) = split_instructions(&messages);
        assert_eq!(instructions, ["a", "b"]);
        assert_eq!(rest, [user, system("c")]);
        assert_eq!(split_instructions(&[]), (vec![], [].as_slice()));
    }
}
