//! Judges the addresses of a host: public ones, and those that the user allows for exactly one host and port.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolving};
use sinew_policy::addresses::special;
use sinew_tool::BoxFuture;

use crate::resolver::{Resolve, ResolveError};

/// An address that a fetch may not connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotPublic {
    /// The address.
    pub address: IpAddr,
    /// The use of its block.
    pub what: &'static str,
    /// The document that says so; empty for this host's own addresses.
    pub source: &'static str,
}

impl fmt::Display for NotPublic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, what, source } = self;
        write!(f, "{address} leads to {what}")?;
        if source.is_empty() { Ok(()) } else { write!(f, " ({source})") }
    }
}

impl std::error::Error for NotPublic {}

/// Judges all addresses of a host: one that is not public spoils the others, which may be there for show.
pub fn judge(addresses: &[IpAddr]) -> Result<(), NotPublic> {
    addresses.iter().try_for_each(|address| judge_one(*address))
}

fn judge_one(address: IpAddr) -> Result<(), NotPublic> {
    if let Some(block) = special(address) {
        return Err(NotPublic { address, what: block.what, source: block.source });
    }
    if is_own(address) {
        return Err(NotPublic { address, what: "this host", source: "" });
    }
    Ok(())
}

/// Returns whether an address is one of this host: the kernel connects it to itself. Nothing is sent.
#[expect(clippy::disallowed_types, reason = "asks the kernel which of its addresses it would use")]
fn is_own(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let own = || {
        let socket = std::net::UdpSocket::bind(SocketAddr::new(any, 0)).ok()?;
        socket.connect(SocketAddr::new(address, 1)).ok()?;
        Some(socket.local_addr().ok()?.ip() == address)
    };
    own().unwrap_or(false)
}

/// Resolves names for an HTTP client, to public addresses only unless the user allowed the host.
#[derive(Debug, Clone)]
pub(crate) struct JudgedResolver {
    pub(crate) resolver: Arc<dyn Resolve>,
    pub(crate) public_only: bool,
}

impl reqwest::dns::Resolve for JudgedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolving = self.resolver.resolve(name.as_str());
        let public_only = self.public_only;
        Box::pin(async move {
            let addresses = resolving.await?;
            if addresses.is_empty() {
                return Err(ResolveError::NoAddress.into());
            }
            if public_only {
                judge(&addresses)?;
            }
            // The client puts the port of the request in.
            let addresses = addresses.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses.collect::<Vec<_>>().into_iter()) as Addrs)
        })
    }
}

/// Resolves these names alone: a client that should ask a proxy then connects to nothing else.
#[derive(Debug)]
pub(crate) struct OnlyNames {
    pub(crate) resolver: Arc<dyn Resolve>,
    pub(crate) names: Vec<String>,
}

impl Resolve for OnlyNames {
    fn resolve(&self, name: &str) -> BoxFuture<'static, Result<Vec<IpAddr>, ResolveError>> {
        match self.names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            true => self.resolver.resolve(name),
            false => Box::pin(async { Err(ResolveError::NoName) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_special_address_spoils_the_others() {
        for (addresses, refused) in [
            (&["93.184.216.34", "2606:2800:220:1::1"][..], None),
            (
                &["93.184.216.34", "127.0.0.1"],
                Some("127.0.0.1 leads to this host (RFC 1122, 3.2.1.3)"),
            ),
            (&["::ffff:10.0.0.1"], Some("::ffff:10.0.0.1 leads to a private network (RFC 1918)")),
            (
                &["169.254.169.254"],
                Some(
                    "169.254.169.254 leads to a cloud provider's metadata service (Amazon Web Services and others)",
                ),
            ),
        ] {
            let addresses: Vec<IpAddr> = addresses.iter().map(|a| a.parse().expect(a)).collect();
            let told = judge(&addresses).err().map(|error| error.to_string());
            assert_eq!(told.as_deref(), refused, "{addresses:?}");
        }
    }

    #[test]
    fn own_addresses_are_known() {
        assert!(is_own(Ipv4Addr::LOCALHOST.into()));
        assert!(!is_own(Ipv4Addr::new(192, 0, 2, 1).into()));
    }
}
