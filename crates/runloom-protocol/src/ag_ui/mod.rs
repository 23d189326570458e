//! AG-UI, the protocol of agent front ends: the checked request of a client, and the events that answer it.

mod event;
mod input;

pub use event::{
    AgUiEvent, Interrupt, Outcome, RunStartedMetadata, RunloomRun, SnapshotMessage, TokenUsage,
};
pub use input::{
    ContextEntry, InputMessage, MessageBody, OnDisconnect, ProtocolVersion, ResumeEntry,
    RunAgentInput, RunloomProps,
};
