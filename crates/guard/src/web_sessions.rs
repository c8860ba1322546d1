//! What sessions read from the network, and from where.
//!
//! A page can tell a model to send what it knows to some host. Once a session read a page or results of a search, hosts
//! that it did not reach before are hosts that a page may have named, so reaching them asks. An address that a search
//! found is fetched as it was found: what the model knows is not part of it.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use sinew_tool::sync::lock;
use sinew_tool::{Host, SearchResult, UrlTarget};

/// The most sessions, and the most hosts and addresses of one, that are remembered.
const MAX_KEPT: usize = 4_096;

/// What each session read.
#[derive(Debug, Default)]
pub(crate) struct WebSessions {
    read: Mutex<HashMap<String, Known>>,
}

/// What a session that read something may go on to read.
#[derive(Debug, Default)]
struct Known {
    /// Hosts that it reached.
    hosts: HashSet<String>,
    /// Addresses (URLs) that searches found: fetching one of them tells its host nothing but that it was chosen.
    found: HashSet<String>,
}

impl WebSessions {
    /// Notes that a session read from a host.
    pub(crate) fn note(&self, session: &str, host: &Host) {
        self.with(session, |known| {
            if known.hosts.len() < MAX_KEPT {
                known.hosts.insert(host.name().to_owned());
            }
        });
    }

    /// Notes that a session read something that came with no host of its own.
    pub(crate) fn note_text(&self, session: &str) {
        self.with(session, |_| {});
    }

    /// Notes that a session read these results of a search.
    pub(crate) fn note_found(&self, session: &str, results: &[SearchResult]) {
        self.with(session, |known| {
            let left = MAX_KEPT.saturating_sub(known.found.len());
            known.found.extend(results.iter().take(left).map(|result| result.url.clone()));
        });
    }

    fn with(&self, session: &str, change: impl FnOnce(&mut Known)) {
        let mut read = lock(&self.read);
        if read.len() < MAX_KEPT || read.contains_key(session) {
            change(read.entry(session.to_owned()).or_default());
        }
    }

    /// Returns whether a plain request for an address is known only because a search found it: its host stays one
    /// that asks.
    pub(crate) fn is_found(&self, session: &str, url: &str, host: &Host) -> bool {
        let read = lock(&self.read);
        let known = read.get(session);
        known.is_some_and(|known| !known.hosts.contains(host.name()) && known.found.contains(url))
    }

    /// Returns the host of the first address that no search found and whose host the session did not reach, if it
    /// read something before. Headers, a method and a body are not part of an address that a search found.
    ///
    /// A session that cannot be remembered counts as one that read a page.
    pub(crate) fn unnamed(&self, session: &str, urls: &[UrlTarget]) -> Option<Host> {
        urls.iter().find_map(|target| {
            let is_found =
                target.claim.sent.is_empty() && self.is_found(session, &target.url, &target.host);
            if is_found { None } else { self.unnamed_host(session, &target.host) }
        })
    }

    /// Returns the host, if the session read something before and did not reach it.
    pub(crate) fn unnamed_host(&self, session: &str, host: &Host) -> Option<Host> {
        let read = lock(&self.read);
        let is_unnamed = match read.get(session) {
            Some(known) => !known.hosts.contains(host.name()),
            None => MAX_KEPT <= read.len(),
        };
        is_unnamed.then(|| host.clone())
    }
}

#[cfg(test)]
mod tests {
    use sinew_tool::UrlClaim;

    use super::*;

    fn host(name: &str) -> Host {
        Host::new(name, Some(443))
    }

    fn url(host: Host, path: &str) -> UrlTarget {
        let url = format!("https://{}{path}", host.name());
        let claim = UrlClaim { argument: "url", url: url.clone(), sent: Vec::new() };
        UrlTarget { claim, url, host }
    }

    #[test]
    fn a_page_makes_other_hosts_ask() {
        let sessions = WebSessions::default();
        let both = ["a.test", "b.test"].map(|name| url(host(name), "/"));
        assert_eq!(sessions.unnamed("s", &both), None);
        sessions.note("s", &both[0].host);
        assert_eq!(sessions.unnamed("s", &both), Some(both[1].host.clone()));
        assert_eq!(sessions.unnamed("s", &both[..1]), None);
        let other_port = url(Host::new("a.test", Some(80)), "/");
        assert_eq!(sessions.unnamed("s", &[other_port]), None);
        assert_eq!(sessions.unnamed("other", &both), None);
    }

    #[test]
    fn found_addresses_do_not_ask() {
        let sessions = WebSessions::default();
        let found = SearchResult {
            title: String::new(),
            url: String::from("https://a.test/page"),
            content: String::new(),
        };
        sessions.note_found("s", &[found]);
        assert_eq!(sessions.unnamed("s", &[url(host("a.test"), "/page")]), None);
        for path in ["/page?x=secret", "/", "/page/"] {
            let other = url(host("a.test"), path);
            assert_eq!(sessions.unnamed("s", &[other]), Some(host("a.test")), "{path}");
        }
        let mut sending = url(host("a.test"), "/page");
        sending.claim.sent = vec![String::from("header: x: secret")];
        assert_eq!(sessions.unnamed("s", &[sending]), Some(host("a.test")));
        assert!(sessions.is_found("s", "https://a.test/page", &host("a.test")));
        sessions.note("s", &host("a.test"));
        assert!(!sessions.is_found("s", "https://a.test/page", &host("a.test")));
        sessions.note_text("text");
        let any = url(host("a.test"), "/page");
        assert_eq!(sessions.unnamed("text", &[any]), Some(host("a.test")));
    }

    #[test]
    fn forgotten_sessions_ask() {
        let sessions = WebSessions::default();
        let page = [url(host("a.test"), "/")];
        for n in 0..MAX_KEPT {
            sessions.note(&n.to_string(), &host("a.test"));
        }
        assert_eq!(sessions.unnamed("new", &page), Some(host("a.test")));
        sessions.note("new", &host("a.test"));
        assert_eq!(sessions.unnamed("new", &page), Some(host("a.test")));
        assert_eq!(sessions.unnamed("0", &page), None);
    }
}
