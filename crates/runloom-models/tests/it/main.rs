//! The conformance suite: every adapter over HTTP on loopback, against scripted responses in its vendor's format.
//!
//! A new adapter adds its row in `providers.rs`, its name to the list below and its fixtures; `registry.rs` checks
//! this.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    reason = "this whole crate is a test: a panic is how it fails, and nobody outside sees it"
)]

mod aws_event_stream;
mod cases;
mod connections;
mod faults;
mod files;
mod gemini;
mod http;
mod messages_api;
mod openai_responses;
mod providers;
mod registry;
mod requests;
mod server;
mod vendor;

/// One test per case and provider, so that a failure names both.
macro_rules! conformance {
    (providers: $providers:tt cases: $cases:tt) => {
        conformance!(@providers $providers $cases);
    };
    (@providers { $($provider:ident,)* } $cases:tt) => {
        $(mod $provider {
            use crate::providers::$provider as row;
            conformance!(@cases $cases);
        })*

        /// Every row.
        fn rows() -> Vec<providers::Row> {
            vec![$(providers::$provider(),)*]
        }
    };
    (@cases { $($module:ident::$case:ident,)* }) => {
        $(#[tokio::test]
        async fn $case() {
            crate::$module::$case(&row()).await;
        })*
    };
}

conformance! {
    providers: {
        openai,
        azure_openai,
        xai,
        openai_compatible,
        anthropic,
        bedrock,
        google,
    }
    cases: {
        cases::text,
        cases::thinking,
        cases::tool_call_in_pieces,
        cases::several_calls,
        cases::text_and_tools,
        cases::multi_turn_with_state,
        cases::refusal,
        cases::truncation,
        cases::structured_output,
        cases::malformed_call,
        cases::megabyte_frame,
        cases::any_chunks,
        faults::error_event_inside_the_stream,
        faults::cut_stream,
        faults::broken_connection,
        faults::garbage_frame,
        faults::rate_limit_with_retry_after,
        faults::server_error,
        faults::overloaded,
        faults::context_window,
        faults::auth_error_shows_no_key,
        faults::hang_before_the_answer,
        faults::hang_after_the_headers,
        faults::silence_inside_the_answer,
        faults::trickle_past_the_total_deadline,
        faults::nobody_listens,
        faults::dropping_the_stream_closes_the_connection,
        files::are_sent_as_the_capabilities_say,
        requests::match_their_snapshots,
    }
}
