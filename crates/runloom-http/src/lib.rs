//! The HTTP and SSE API.
