//! HTTP on judged addresses: an own resolver, requests to servers of the user, and fetches of public pages.
//!
//! Every host is resolved once for a connection, each of its addresses is judged, and one of them is connected
//! to: what a name means cannot change in between. Redirects are steps of their own, judged like the first request.

#![forbid(unsafe_code)]

pub mod address;
mod cache;
pub mod callback;
pub mod channels;
pub mod fetch;
pub mod html;
pub mod http;
pub mod resolver;
pub mod search;
pub mod server_client;
pub mod stream_client;
pub mod worker;
