//! Responses framed for an HTTP version, built once and then written from memory.

use std::collections::HashMap;
use std::rc::Rc;

use bytes::Bytes;

use crate::http::{LAST_CHUNK, encode_chunk};
use crate::script::{Delivery, Script};
use crate::scripted_response::{Api, ScriptedResponse, Turn};
use crate::upstream::HttpVersion;

const HTTP1_HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// More than the different responses of one benchmark.
const MAX_RESPONSES: usize = 64;

/// What a response depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ResponseKey {
    pub(super) version: HttpVersion,
    pub(super) api: Api,
    pub(super) model: String,
    pub(super) turn: Turn,
}

/// A response as it is written to the connection. With bulk delivery `opening` is all of it.
#[derive(Debug)]
pub(super) struct FramedResponse {
    pub(super) opening: Bytes,
    pub(super) tokens: Vec<Bytes>,
    pub(super) closing: Bytes,
}

#[derive(Debug, Default)]
pub(super) struct ResponseCache {
    responses: HashMap<ResponseKey, Rc<FramedResponse>>,
}

impl ResponseCache {
    pub(super) fn get(&mut self, key: ResponseKey, script: &Script) -> Rc<FramedResponse> {
        if self.responses.len() >= MAX_RESPONSES && !self.responses.contains_key(&key) {
            self.responses.clear();
        }
        let response = self.responses.entry(key).or_insert_with_key(|key| {
            let response = ScriptedResponse::new(key.api, &key.model, key.turn, script);
            Rc::new(FramedResponse::new(key.version, script.delivery, &response))
        });
        Rc::clone(response)
    }
}

impl FramedResponse {
    fn new(version: HttpVersion, delivery: Delivery, response: &ScriptedResponse) -> Self {
        let mut opening = Vec::new();
        let mut closing = frame(version, &response.closing);
        if version == HttpVersion::Http1 {
            opening.extend_from_slice(HTTP1_HEAD);
            closing.extend_from_slice(LAST_CHUNK);
        }
        opening.extend(frame(version, &response.opening));
        let tokens: Vec<Bytes> = response
            .tokens
            .iter()
            .map(|token| frame(version, token).into())
            .collect();
        match delivery {
            Delivery::PerToken => Self {
                opening: opening.into(),
                tokens,
                closing: closing.into(),
            },
            Delivery::Bulk => Self {
                opening: [opening, tokens.concat(), closing].concat().into(),
                tokens: Vec::new(),
                closing: Bytes::new(),
            },
        }
    }
}

/// Frames one piece of a body.
pub(super) fn frame(version: HttpVersion, data: &[u8]) -> Vec<u8> {
    match version {
        HttpVersion::Http1 => encode_chunk(data),
        HttpVersion::Http2 => data.to_vec(),
    }
}
