//! The hosts that a call names.

use std::fmt;

/// A host of a call, as it is looked up, and the port there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Host {
    /// The name in lower case, or an address; IPv6 without brackets.
    name: String,
    /// The port; `None` if only the call knows it.
    port: Option<u16>,
}

impl Host {
    /// Returns a host. Names are compared without case, a dot at their end and the brackets of IPv6.
    pub fn new(name: &str, port: Option<u16>) -> Self {
        let name = name.strip_suffix('.').unwrap_or(name);
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        Self { name: bare.unwrap_or(name).to_ascii_lowercase(), port }
    }

    /// Returns the name or the address.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the port, if it is known.
    pub fn port(&self) -> Option<u16> {
        self.port
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.port, self.name.contains(':')) {
            (None, _) => f.write_str(&self.name),
            (Some(port), true) => write!(f, "[{}]:{port}", self.name),
            (Some(port), false) => write!(f, "{}:{port}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_written_with_its_port() {
        for (name, port, expected) in [
            ("Example.COM", None, "example.com"),
            ("example.com.", Some(80), "example.com:80"),
            ("192.0.2.1", Some(443), "192.0.2.1:443"),
            ("[2001:DB8::1]", None, "2001:db8::1"),
            ("2001:db8::1", Some(443), "[2001:db8::1]:443"),
        ] {
            assert_eq!(Host::new(name, port).to_string(), expected, "{name}");
        }
    }
}
