//! Proxies, which connect in the place of sinew where the user says so.
//!
//! Hosts are judged before a proxy is asked, but what a name means is then looked up again by the proxy: which
//! address is connected to is its decision.

use std::fmt;

use sinew_tool::Host;
use url::Url;

use crate::hosts::HostPattern;

/// Names of local networks: RFC 6761 (6.3), RFC 6762 (3 and appendix G), RFC 8375, what ICANN keeps for private use since
/// 2024, what files of hosts and clusters of containers use, and the metadata service of Google Cloud.
const LOCAL_NAMES: [&str; 13] = [
    "localhost",
    "localdomain",
    "localdomain6",
    "local",
    "home.arpa",
    "internal",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
    "svc",
    "metadata.goog",
];

/// Which proxies are asked. The default connects without one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// The proxy of addresses with `http`.
    pub http: Option<ProxyAddress>,
    /// The proxy of addresses with `https`.
    pub https: Option<ProxyAddress>,
    /// Hosts that are connected to directly.
    pub except: Vec<HostPattern>,
    /// Whether a proxy alone resolves names.
    pub resolve: bool,
    /// Whether variables name them that the user has not confirmed: then no public host is reached.
    pub unconfirmed: bool,
}

/// The address of a proxy, which may hold a password.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyAddress(Url);

impl ProxyAddress {
    /// Parses an address with `http` or `https`; without a scheme it is `http`. The error says why it is invalid.
    pub fn parse(written: &str) -> Result<Self, String> {
        let url = match written.contains("://") {
            true => Url::parse(written),
            false => Url::parse(&format!("http://{written}")),
        };
        let url = url.map_err(|error| error.to_string())?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!(
                "only proxies with `http` and `https` are used, not `{}`",
                url.scheme()
            ));
        }
        // HTTP clients take fewer characters for a host than addresses of pages may have, and pass over what they do not.
        let host = url.host_str().unwrap_or_default();
        let is_plain = |c: u8| c.is_ascii_alphanumeric() || b"-._:[]".contains(&c);
        if host.is_empty() || !host.bytes().all(is_plain) {
            return Err(format!("`{}` is not a host", host.escape_debug()));
        }
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(String::from("it must end after its host and port"));
        }
        Ok(Self(url))
    }

    /// Returns the whole address.
    pub fn url(&self) -> &Url {
        &self.0
    }

    /// Returns the host with its port.
    pub fn host(&self) -> Host {
        Host::new(self.0.host_str().unwrap_or_default(), self.0.port_or_known_default())
    }

    /// Returns whether the address holds a name or a password.
    pub fn has_credentials(&self) -> bool {
        !self.0.username().is_empty() || self.0.password().is_some()
    }
}

impl fmt::Display for ProxyAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.host().fmt(f)
    }
}

impl fmt::Debug for ProxyAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProxyAddress({self})")
    }
}

impl Proxies {
    /// Reads what variables of the environment say; `read` returns the value of one. As in curl, names in lower case
    /// come first, and a name in `NO_PROXY` means all names beneath it.
    pub fn from_variables(read: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let first = |names: &[&str]| {
            let mut written = names.iter().filter_map(|name| Some((*name, read(name)?)));
            let Some((name, value)) = written.next() else { return Ok(None) };
            let parsed = ProxyAddress::parse(&value);
            parsed
                .map(Some)
                .map_err(|why| format!("`{name}` names no proxy that can be used: {why}"))
        };
        let except = read("no_proxy").or_else(|| read("NO_PROXY")).unwrap_or_default();
        Ok(Self {
            http: first(&["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"])?,
            https: first(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"])?,
            except: except.split([',', ' ']).flat_map(excepted).collect(),
            ..Self::default()
        })
    }

    /// Returns the proxy that is asked for a host.
    pub fn of(&self, scheme: &str, host: &Host) -> Option<&ProxyAddress> {
        let proxy = if scheme == "https" { &self.https } else { &self.http };
        let is_excepted = self.except.iter().any(|pattern| pattern.means(host, false));
        proxy.as_ref().filter(|_| !is_excepted)
    }
}

/// Returns whether a name is one of local networks, which no proxy should look up for a model.
pub fn is_local(name: &str) -> bool {
    !name.contains('.')
        || LOCAL_NAMES.iter().any(|local| {
            name.strip_suffix(local).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        })
}

/// Returns the hosts that an entry of `NO_PROXY` means; blocks of addresses mean none.
fn excepted(entry: &str) -> Vec<HostPattern> {
    let name = entry.trim_start_matches("*.").trim_start_matches('.');
    let written = match name {
        "" => Vec::new(),
        "*" => vec![String::from("*")],
        name => vec![format!("*.{name}"), name.to_owned()],
    };
    written.iter().filter_map(|host| HostPattern::parse(host).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_name_proxies() {
        let read = |variables: &[(&str, &str)]| {
            let find = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            Proxies::from_variables(find)
        };
        let of = |proxies: &Proxies, scheme: &str, name: &str, port| {
            proxies.of(scheme, &Host::new(name, Some(port))).map(ToString::to_string)
        };
        let all = [
            ("HTTPS_PROXY", "http://u:secret@one.test:3128"),
            ("ALL_PROXY", "two.test"),
            ("NO_PROXY", "a.test, .b.test,10.0.0.0/8,c.test:8080, 192.0.2.1"),
        ];
        let proxies = read(&all).expect("proxies");
        assert!(!format!("{proxies:?}").contains("secret"));
        for (scheme, name, port, expected) in [
            ("https", "docs.rs", 443, Some("one.test:3128")),
            ("http", "docs.rs", 80, Some("two.test:80")),
            ("https", "a.test", 443, None),
            ("https", "x.a.test", 443, None),
            ("https", "xa.test", 443, Some("one.test:3128")),
            ("https", "b.test", 443, None),
            ("https", "10.0.0.1", 443, Some("one.test:3128")),
            ("https", "c.test", 443, Some("one.test:3128")),
            ("https", "c.test", 8080, None),
            ("http", "192.0.2.1", 80, None),
        ] {
            assert_eq!(of(&proxies, scheme, name, port).as_deref(), expected, "{scheme} {name}");
        }
        let lower = read(&[("http_proxy", "low:1"), ("HTTP_PROXY", "up:1")]).expect("proxies");
        assert_eq!(of(&lower, "http", "x.test", 80).as_deref(), Some("low:1"));
        assert_eq!(of(&lower, "https", "x.test", 443), None);
        let none = read(&[("ALL_PROXY", "two.test"), ("NO_PROXY", "*")]).expect("proxies");
        assert_eq!(of(&none, "https", "docs.rs", 443), None);
        assert_eq!(read(&[]), Ok(Proxies::default()));
        for (value, part) in [
            ("socks5://one.test", "not `socks5`"),
            ("http://one.test/path", "after its host"),
            ("http://", "empty host"),
            ("http://${PROXY}:3128", "is not a host"),
            ("http://a{b}.test:1", "is not a host"),
            ("http://`id`", "is not a host"),
        ] {
            let error = read(&[("HTTPS_PROXY", value)]).expect_err(value);
            assert!(error.starts_with("`HTTPS_PROXY`") && error.contains(part), "{error}");
        }
    }

    #[test]
    fn names_of_local_networks_are_known() {
        for (name, expected) in [
            ("localhost", true),
            ("a.localhost", true),
            ("printer", true),
            ("printer.local", true),
            ("metadata.google.internal", true),
            ("router.home.arpa", true),
            ("home.arpa", true),
            ("localhost.localdomain", true),
            ("api.default.svc", true),
            ("metadata.goog", true),
            ("docs.rs", false),
            ("notlocal.test", false),
            ("xlocalhost.test", false),
        ] {
            assert_eq!(is_local(name), expected, "{name}");
        }
    }
}
