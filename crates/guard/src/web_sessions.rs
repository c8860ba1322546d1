//! What sessions read from the network, and from where.
//!
//! A page can tell a model to send what it knows to some host. Once a session read a page, hosts that it did not reach
//! before are hosts that the page may have named, so reaching them asks.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use sinew_tool::Host;
use sinew_tool::sync::lock;

/// The most sessions, and the most hosts of one, that are remembered.
const MAX_KEPT: usize = 4_096;

/// The hosts that each session read from.
#[derive(Debug, Default)]
pub(crate) struct WebSessions {
    read: Mutex<HashMap<String, HashSet<String>>>,
}

impl WebSessions {
    /// Notes that a session read from a host.
    pub(crate) fn note(&self, session: &str, host: &Host) {
        let mut read = lock(&self.read);
        if MAX_KEPT <= read.len() && !read.contains_key(session) {
            return;
        }
        let hosts = read.entry(session.to_owned()).or_default();
        if hosts.len() < MAX_KEPT {
            hosts.insert(host.name().to_owned());
        }
    }

    /// Returns the first of the hosts that the session did not reach before it read a page, if it read one.
    ///
    /// A session that cannot be remembered counts as one that read a page.
    pub(crate) fn unnamed(&self, session: &str, hosts: &[Host]) -> Option<Host> {
        let read = lock(&self.read);
        match read.get(session) {
            Some(known) => hosts.iter().find(|host| !known.contains(host.name())).cloned(),
            None if MAX_KEPT <= read.len() => hosts.first().cloned(),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> Host {
        Host::new(name, Some(443))
    }

    #[test]
    fn a_page_makes_other_hosts_ask() {
        let sessions = WebSessions::default();
        let both = [host("a.test"), host("b.test")];
        assert_eq!(sessions.unnamed("s", &both), None);
        sessions.note("s", &both[0]);
        assert_eq!(sessions.unnamed("s", &both), Some(both[1].clone()));
        assert_eq!(sessions.unnamed("s", &both[..1]), None);
        assert_eq!(sessions.unnamed("s", &[Host::new("a.test", Some(80))]), None);
        assert_eq!(sessions.unnamed("other", &both), None);
    }

    #[test]
    fn forgotten_sessions_ask() {
        let sessions = WebSessions::default();
        for n in 0..MAX_KEPT {
            sessions.note(&n.to_string(), &host("a.test"));
        }
        assert_eq!(sessions.unnamed("new", &[host("a.test")]), Some(host("a.test")));
        sessions.note("new", &host("a.test"));
        assert_eq!(sessions.unnamed("new", &[host("a.test")]), Some(host("a.test")));
        assert_eq!(sessions.unnamed("0", &[host("a.test")]), None);
    }
}
