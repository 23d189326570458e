//! Conversations that are added to, shared and written.

use std::convert::Infallible;

use super::*;

fn said(text: impl fmt::Display) -> Message {
    let text = text.to_string().into();
    Message::User { text }
}

/// Every text with a comma before it, and whether the block knew that.
fn write(block: &Block, format: &str) -> (Bytes, bool) {
    let mut asked = false;
    let bytes = block.written(format, |messages| {
        asked = true;
        let texts = messages.iter().map(|message| match message {
            Message::User { text } => format!(",{text}"),
            _ => unreachable!(),
        });
        Ok::<_, Infallible>(Bytes::from(texts.collect::<String>()))
    });
    (bytes.unwrap(), !asked)
}

#[test]
fn what_is_added_to_a_clone_leaves_the_shared_beginning_alone() {
    let shared = Conversation::from(vec![said(1)]);
    let mut longer = shared.clone();
    longer.compact();
    longer.append(vec![said(2), said(3)]);
    longer.append(Vec::new());
    assert_eq!(longer, Conversation::from(vec![said(1), said(2), said(3)]));
    assert_eq!((longer.len(), longer.is_empty()), (3, false));
    assert!(longer.iter().rev().eq(&[said(3), said(2), said(1)]));
    assert!(Arc::ptr_eq(&longer.blocks()[0], &shared.blocks()[0]));
    assert_eq!(shared.len(), 1);
    assert!(Conversation::default().is_empty());
}

#[test]
fn a_long_conversation_has_few_blocks_and_its_messages_move_seldom() {
    for step in [1, 2, 7] {
        let mut conversation = Conversation::default();
        let mut moved = 0;
        for n in 0..1_000 {
            let before = conversation.clone();
            conversation.compact();
            let new = conversation
                .blocks()
                .iter()
                .filter(|block| !before.blocks().iter().any(|old| Arc::ptr_eq(old, block)));
            moved += new.map(|block| block.messages().len()).sum::<usize>();
            conversation.append((0..step).map(|part| said(n * step + part)).collect());
            assert!(conversation.blocks().len() <= 12, "at {n}");
        }
        let all = (0..1_000 * step).map(said);
        assert_eq!(conversation, all.collect());
        assert!(moved <= 12 * 1_000 * step, "{moved}");
    }
}

#[test]
fn a_block_after_many_small_ones_takes_them_all_in() {
    let mut conversation: Conversation = (0..3).map(said).collect();
    for n in 3..6 {
        conversation.append(vec![said(n)]);
    }
    conversation.append((6..30).map(said).collect());
    conversation.append(vec![said(30)]);
    conversation.compact();
    let lengths = conversation.blocks().iter().map(|b| b.messages().len());
    assert_eq!(lengths.collect::<Vec<_>>(), [30, 1]);
    assert_eq!(conversation, (0..31).map(said).collect());
}

#[test]
fn one_format_is_remembered_and_others_are_written_anew() {
    let conversation = Conversation::from(vec![said(1), said(2)]);
    let block = &conversation.blocks()[0];
    assert_eq!(write(block, "a"), (",1,2".into(), false));
    assert_eq!(write(block, "b"), (",1,2".into(), false));
    assert_eq!(write(block, "b"), (",1,2".into(), false));
    assert_eq!(write(block, "a"), (",1,2".into(), true));
    let failed = Conversation::from(vec![said(1)]);
    let block = &failed.blocks()[0];
    assert_eq!(block.written("a", |_| Err("no")), Err("no"));
    assert_eq!(write(block, "a"), (",1".into(), false));
}

#[test]
fn merged_blocks_remember_what_all_their_parts_do() {
    for (formats, kept) in [
        ([Some("a"), Some("a"), Some("a")], true),
        ([Some("a"), Some("b"), Some("a")], false),
        ([Some("a"), None, Some("a")], false),
    ] {
        let mut conversation = Conversation::default();
        for (n, format) in formats.into_iter().enumerate() {
            conversation.append(vec![said(n)]);
            if let Some(format) = format {
                write(&conversation.blocks()[n], format);
            }
        }
        conversation.append(vec![said(3)]);
        conversation.compact();
        let merged = &conversation.blocks()[0];
        assert_eq!(merged.messages().len(), 3);
        assert_eq!(write(merged, "a"), (",0,1,2".into(), kept), "{formats:?}");
    }
}

#[test]
fn memory_counts_what_is_written_also_before_it_is() {
    let mut conversation = Conversation::from(vec![said("12345")]);
    assert_eq!(conversation.bytes(), 5);
    assert_eq!(conversation.memory(), MESSAGE_BYTES + 10);
    write(&conversation.blocks()[0], "a");
    assert_eq!(conversation.memory(), MESSAGE_BYTES + 11);
    conversation.append(vec![said("6")]);
    conversation.append(vec![said("7")]);
    conversation.compact();
    assert_eq!((conversation.blocks().len(), conversation.bytes()), (2, 7));
}
