//! Patterns of hosts in rules: names, addresses, ports, and wildcards of whole labels.

use std::fmt;
use std::net::Ipv6Addr;

use sinew_tool::Host;

/// Which hosts a rule means.
///
/// `example.com` means that name, `*.example.com` every name beneath it, `*` every host. `:443` behind it limits
/// it to that port. Addresses and international names match in every spelling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern {
    names: HostNames,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostNames {
    All,
    /// A name or an address, as [`Host`] has it.
    One(String),
    /// The names that end with this one and have a label before it.
    Beneath(String),
}

impl HostPattern {
    /// Parses a pattern. The error says why it is invalid.
    pub fn parse(written: &str) -> Result<Self, String> {
        let (name, port) = parted(written)?;
        let above = name.strip_prefix("*.");
        if name != "*" && above.unwrap_or(name).contains('*') {
            return Err(String::from("`*` stands for whole labels at the beginning"));
        }
        let names = match above {
            _ if name == "*" => HostNames::All,
            Some(above) => match url::Host::parse(above) {
                Ok(url::Host::Domain(above)) => {
                    HostNames::Beneath(Host::new(&above, None).name().to_owned())
                }
                Ok(_) => return Err(String::from("no names are beneath an address")),
                Err(error) => return Err(error.to_string()),
            },
            None => HostNames::One(one(name)?),
        };
        Ok(Self { names, port })
    }

    /// Returns the pattern that means every host.
    pub fn all() -> Self {
        Self { names: HostNames::All, port: None }
    }

    /// Returns the pattern that means exactly this host.
    pub fn of(host: &Host) -> Self {
        Self { names: HostNames::One(host.name().to_owned()), port: host.port() }
    }

    /// Returns whether the pattern means one host and one port.
    pub fn is_exact(&self) -> bool {
        matches!(self.names, HostNames::One(_)) && self.port.is_some()
    }

    /// Returns whether the pattern means a host. `if_unknown` is the answer where the pattern has a port and the host's
    /// is not known.
    pub fn means(&self, host: &Host, if_unknown: bool) -> bool {
        let by_name = match &self.names {
            HostNames::All => true,
            HostNames::One(name) => name == host.name(),
            HostNames::Beneath(above) => host
                .name()
                .strip_suffix(above.as_str())
                .is_some_and(|rest| 1 < rest.len() && rest.ends_with('.')),
        };
        by_name
            && match (self.port, host.port()) {
                (Some(port), Some(known)) => port == known,
                (Some(_), None) => if_unknown,
                (None, _) => true,
            }
    }
}

/// Parts a port off.
fn parted(written: &str) -> Result<(&str, Option<u16>), String> {
    if written.parse::<Ipv6Addr>().is_ok() || written.ends_with(']') {
        return Ok((written, None));
    }
    let Some((name, port)) = written.rsplit_once(':') else { return Ok((written, None)) };
    match port.parse() {
        Ok(port) if port != 0 && !port_is_signed(written, name) => Ok((name, Some(port))),
        _ => Err(String::from("behind `:` comes a port from 1 to 65535")),
    }
}

/// Returns whether the port begins with a sign, which numbers may.
fn port_is_signed(written: &str, name: &str) -> bool {
    written.as_bytes().get(name.len() + 1) == Some(&b'+')
}

/// Returns a name or an address as [`Host`] has it.
fn one(name: &str) -> Result<String, String> {
    let host = match name.parse::<Ipv6Addr>() {
        Ok(address) => url::Host::Ipv6(address),
        Err(_) => url::Host::parse(name).map_err(|error| error.to_string())?,
    };
    Ok(Host::new(&host.to_string(), None).name().to_owned())
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.names {
            HostNames::All => f.write_str("*")?,
            HostNames::One(name) => return Host::new(name, self.port).fmt(f),
            HostNames::Beneath(above) => write!(f, "*.{above}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a host as a message shows it.
    fn host(shown: &str) -> Host {
        let (name, port) = parted(shown).expect("a host");
        Host::new(name, port)
    }

    #[test]
    fn patterns_mean_hosts() {
        for (pattern, hosts, others) in [
            ("*", &["example.com", "127.0.0.1:80", "::1"][..], &[][..]),
            ("*:443", &["example.com:443", "[::1]:443"], &["example.com:80"]),
            ("Example.COM", &["example.com", "example.com.:80"], &["www.example.com", "ample.com"]),
            ("example.com:8080", &["example.com:8080"], &["example.com:80", "a.example.com:8080"]),
            (
                "*.example.com",
                &["a.example.com", "a.b.example.com:1"],
                &["example.com", "bexample.com"],
            ),
            ("*.example.com:443", &["a.example.com:443"], &["a.example.com:80", "example.com:443"]),
            ("bücher.de", &["xn--bcher-kva.de"], &["bücher.de"]),
            ("0x7f.1", &["127.0.0.1:80"], &["0x7f.1"]),
            ("[0:0::1]:8080", &["[::1]:8080"], &["[::1]:80"]),
            ("2001:DB8:0::1", &["[2001:db8::1]:80"], &["[2001:db8::2]:80"]),
            ("my_host", &["my_host"], &[]),
        ] {
            let parsed = HostPattern::parse(pattern).expect(pattern);
            for name in hosts {
                assert!(parsed.means(&host(name), false), "{pattern} means {name}");
            }
            for name in others {
                assert!(!parsed.means(&host(name), true), "{pattern} does not mean {name}");
            }
        }
    }

    #[test]
    fn an_unknown_port_holds_and_allows_nothing() {
        let pattern = HostPattern::parse("example.com:80").expect("a pattern");
        let host = Host::new("example.com", None);
        assert!(pattern.means(&host, true));
        assert!(!pattern.means(&host, false));
    }

    #[test]
    fn patterns_are_refused() {
        for (written, problem) in [
            ("", "empty host"),
            ("*.", "empty host"),
            ("*.10.0.0.1", "no names are beneath an address"),
            ("a*.example.com", "whole labels"),
            ("*.*.example.com", "whole labels"),
            ("example.com:0", "a port"),
            ("example.com:+1", "a port"),
            ("example.com:65536", "a port"),
            ("example.com:", "a port"),
            ("example.com/path", "invalid"),
            ("a b", "invalid"),
            ("user@example.com", "invalid"),
            ("https://example.com", "a port"),
            ("[::1", ""),
            ("fe80::1%eth0", ""),
        ] {
            let error = HostPattern::parse(written).expect_err(written);
            assert!(error.contains(problem), "{written}: {error}");
        }
    }

    #[test]
    fn patterns_are_shown_as_they_are_parsed() {
        for (written, shown) in [
            ("*", "*"),
            ("*:80", "*:80"),
            ("EXAMPLE.com.", "example.com"),
            ("*.example.com:443", "*.example.com:443"),
            ("[::1]:80", "[::1]:80"),
            ("::1", "::1"),
        ] {
            let pattern = HostPattern::parse(written).expect(written);
            assert_eq!(pattern.to_string(), shown);
            assert_eq!(HostPattern::parse(shown).as_ref(), Ok(&pattern));
        }
    }
}
