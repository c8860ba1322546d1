//! Which Internet addresses are public: the only ones that a fetch may connect to without an exception.
//!
//! A table holds the special-purpose blocks of the IANA registries, each with its RFC, and blocks of cloud providers
//! that look public. The most specific block counts. An address that carries an IPv4 address and is routed to it
//! (IPv4-mapped, NAT64) is judged by that one. IPv6 outside the global unicast block is not public.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A block of addresses, and its use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressBlock {
    /// Its first address, IPv4 as IPv4-mapped.
    first: Ipv6Addr,
    /// The number of leading bits that its addresses share, of 128.
    n_bits: u32,
    /// The addresses beyond it.
    reach: Reach,
    /// Its use, in a few words.
    pub what: &'static str,
    /// The document that says so.
    pub source: &'static str,
}

/// Where packets to a block go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// To hosts that anyone on the Internet can reach.
    Public,
    /// To this host, its networks, a provider's own service, or nowhere.
    Special,
    /// To the IPv4 address in the last 32 bits.
    Embedded,
}

use Reach::{Embedded, Public, Special};

const fn v4(
    first: [u8; 4],
    n_bits: u32,
    reach: Reach,
    what: &'static str,
    source: &'static str,
) -> AddressBlock {
    let [a, b, c, d] = first;
    let first = Ipv4Addr::new(a, b, c, d).to_ipv6_mapped();
    AddressBlock { first, n_bits: 96 + n_bits, reach, what, source }
}

const fn v6(
    first: [u16; 8],
    n_bits: u32,
    reach: Reach,
    what: &'static str,
    source: &'static str,
) -> AddressBlock {
    let [a, b, c, d, e, f, g, h] = first;
    AddressBlock { first: Ipv6Addr::new(a, b, c, d, e, f, g, h), n_bits, reach, what, source }
}

const METADATA: &str = "a cloud provider's metadata service";
const DOCUMENTATION: &str = "addresses for documentation";
const PRIVATE: &str = "a private network";

/// The blocks, in the order of their addresses. What no row holds is public.
pub const BLOCKS: &[AddressBlock] = &[
    v4([0, 0, 0, 0], 0, Public, "the Internet", "RFC 791"),
    v4([0, 0, 0, 0], 8, Special, "this host on this network", "RFC 1122, 3.2.1.3"),
    v4([10, 0, 0, 0], 8, Special, PRIVATE, "RFC 1918"),
    v4([100, 64, 0, 0], 10, Special, "a provider's network behind NAT", "RFC 6598"),
    v4([100, 100, 100, 200], 32, Special, METADATA, "Alibaba Cloud"),
    v4([127, 0, 0, 0], 8, Special, "this host", "RFC 1122, 3.2.1.3"),
    v4([168, 63, 129, 16], 32, Special, METADATA, "Microsoft Azure"),
    v4([169, 254, 0, 0], 16, Special, "the local link", "RFC 3927"),
    v4([169, 254, 169, 254], 32, Special, METADATA, "Amazon Web Services and others"),
    v4([172, 16, 0, 0], 12, Special, PRIVATE, "RFC 1918"),
    v4([192, 0, 0, 0], 24, Special, "assignments for protocols", "RFC 6890, 2.1"),
    v4([192, 0, 0, 192], 32, Special, METADATA, "Oracle Cloud"),
    v4([192, 0, 2, 0], 24, Special, DOCUMENTATION, "RFC 5737"),
    v4([192, 88, 99, 0], 24, Special, "relays of 6to4", "RFC 7526"),
    v4([192, 168, 0, 0], 16, Special, PRIVATE, "RFC 1918"),
    v4([198, 18, 0, 0], 15, Special, "measurements of networks", "RFC 2544"),
    v4([198, 51, 100, 0], 24, Special, DOCUMENTATION, "RFC 5737"),
    v4([203, 0, 113, 0], 24, Special, DOCUMENTATION, "RFC 5737"),
    v4([224, 0, 0, 0], 4, Special, "groups of hosts (multicast)", "RFC 1112, 4"),
    v4([240, 0, 0, 0], 4, Special, "reserved addresses", "RFC 1112, 4"),
    v4([255, 255, 255, 255], 32, Special, "all hosts of the local network", "RFC 919, 7"),
    v6([0; 8], 0, Special, "addresses outside global unicast", "RFC 4291, 2.4"),
    v6([0; 8], 96, Special, "IPv4-compatible addresses", "RFC 4291, 2.5.5.1"),
    v6([0; 8], 128, Special, "no address", "RFC 4291, 2.5.2"),
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128, Special, "this host", "RFC 4291, 2.5.3"),
    v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, Embedded, "NAT64", "RFC 6052, 2.1"),
    v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, Special, "NAT64 of a network", "RFC 8215"),
    v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64, Special, "packets to discard", "RFC 6666"),
    v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3, Public, "the Internet", "RFC 4291, 2.4"),
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, Special, "assignments for protocols", "RFC 2928"),
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, Special, "Teredo", "RFC 4380"),
    v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, Special, DOCUMENTATION, "RFC 3849"),
    v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, Special, "6to4", "RFC 7526"),
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, Special, DOCUMENTATION, "RFC 9637"),
    v6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16, Special, "segments of routes (SRv6)", "RFC 9602"),
    v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, Special, PRIVATE, "RFC 4193"),
    v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128, Special, METADATA, "Amazon Web Services"),
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, Special, "the local link", "RFC 4291, 2.5.6"),
    v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, Special, "a site's network", "RFC 3879"),
    v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, Special, "groups of hosts (multicast)", "RFC 4291, 2.7"),
];

impl AddressBlock {
    fn holds(&self, address: Ipv6Addr) -> bool {
        let rest = 128 - self.n_bits;
        let start = |address: Ipv6Addr| address.to_bits().checked_shr(rest).unwrap_or(0);
        start(address) == start(self.first)
    }
}

/// Returns the block that keeps an address from being public, if one does.
///
/// ```
/// use std::net::IpAddr;
/// use sinew_policy::addresses::special;
///
/// let block = special("::ffff:10.0.0.1".parse::<IpAddr>().unwrap()).unwrap();
/// assert_eq!((block.what, block.source), ("a private network", "RFC 1918"));
/// assert_eq!(special("93.184.215.14".parse().unwrap()), None);
/// ```
pub fn special(address: IpAddr) -> Option<&'static AddressBlock> {
    let address = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    let holding = BLOCKS.iter().filter(|block| block.holds(address));
    let block = holding.max_by_key(|block| block.n_bits)?;
    match block.reach {
        Public => None,
        Special => Some(block),
        Embedded => {
            let [.., a, b, c, d] = address.octets();
            special(IpAddr::from([a, b, c, d]))
        }
    }
}

#[cfg(test)]
mod tests;
