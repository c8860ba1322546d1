#![expect(clippy::disallowed_methods, reason = "compares with what Python says")]

use std::io::Write as _;
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::*;

#[test]
fn addresses_have_the_block_that_counts() {
    for (address, expected) in [
        ("8.8.8.8", None),
        ("1.1.1.1", None),
        ("100.63.255.255", None),
        ("100.128.0.0", None),
        ("168.63.129.15", None),
        ("172.15.255.255", None),
        ("172.32.0.0", None),
        ("198.17.255.255", None),
        ("198.20.0.0", None),
        ("223.255.255.255", None),
        ("2606:4700:4700::1111", None),
        ("2001:200::1", None),
        ("2001:db7:ffff::1", None),
        ("2001:db9::1", None),
        ("2003::1", None),
        ("::ffff:8.8.8.8", None),
        ("64:ff9b::8.8.8.8", None),
        ("0.0.0.0", Some("RFC 1122, 3.2.1.3")),
        ("0.1.2.3", Some("RFC 1122, 3.2.1.3")),
        ("10.255.255.255", Some("RFC 1918")),
        ("100.64.0.0", Some("RFC 6598")),
        ("100.127.255.255", Some("RFC 6598")),
        ("100.100.100.200", Some("Alibaba Cloud")),
        ("127.255.255.254", Some("RFC 1122, 3.2.1.3")),
        ("168.63.129.16", Some("Microsoft Azure")),
        ("169.254.0.1", Some("RFC 3927")),
        ("169.254.169.254", Some("Amazon Web Services and others")),
        ("172.16.0.0", Some("RFC 1918")),
        ("172.31.255.255", Some("RFC 1918")),
        ("192.0.0.1", Some("RFC 6890, 2.1")),
        ("192.0.0.192", Some("Oracle Cloud")),
        ("192.0.2.255", Some("RFC 5737")),
        ("192.88.99.1", Some("RFC 7526")),
        ("192.168.255.255", Some("RFC 1918")),
        ("198.18.0.0", Some("RFC 2544")),
        ("198.19.255.255", Some("RFC 2544")),
        ("198.51.100.1", Some("RFC 5737")),
        ("203.0.113.1", Some("RFC 5737")),
        ("224.0.0.1", Some("RFC 1112, 4")),
        ("239.255.255.255", Some("RFC 1112, 4")),
        ("240.0.0.1", Some("RFC 1112, 4")),
        ("255.255.255.255", Some("RFC 919, 7")),
        ("::", Some("RFC 4291, 2.5.2")),
        ("::1", Some("RFC 4291, 2.5.3")),
        ("::127.0.0.1", Some("RFC 4291, 2.5.5.1")),
        ("::8.8.8.8", Some("RFC 4291, 2.5.5.1")),
        ("::ffff:127.0.0.1", Some("RFC 1122, 3.2.1.3")),
        ("::ffff:169.254.169.254", Some("Amazon Web Services and others")),
        ("::ffff:0:10.0.0.1", Some("RFC 4291, 2.4")),
        ("64:ff9b::10.0.0.1", Some("RFC 1918")),
        ("64:ff9b::169.254.169.254", Some("Amazon Web Services and others")),
        ("64:ff9b:1::8.8.8.8", Some("RFC 8215")),
        ("64:ff9c::1", Some("RFC 4291, 2.4")),
        ("100::1", Some("RFC 6666")),
        ("1fff:ffff::1", Some("RFC 4291, 2.4")),
        ("2001::1", Some("RFC 4380")),
        ("2001:1ff:ffff::1", Some("RFC 2928")),
        ("2001:db8:ffff::1", Some("RFC 3849")),
        ("2002:a00:1::1", Some("RFC 7526")),
        ("2002:808:808::1", Some("RFC 7526")),
        ("3fff:fff:ffff::1", Some("RFC 9637")),
        ("4000::1", Some("RFC 4291, 2.4")),
        ("5f00::1", Some("RFC 9602")),
        ("fc00::1", Some("RFC 4193")),
        ("fdff::1", Some("RFC 4193")),
        ("fd00:ec2::254", Some("Amazon Web Services")),
        ("fe80::1", Some("RFC 4291, 2.5.6")),
        ("febf::1", Some("RFC 4291, 2.5.6")),
        ("fec0::1", Some("RFC 3879")),
        ("ff02::1", Some("RFC 4291, 2.7")),
    ] {
        let found = special(address.parse().expect("an address")).map(|block| block.source);
        assert_eq!(found, expected, "{address}");
    }
}

#[test]
fn blocks_are_whole_and_in_order() {
    for (at, block) in BLOCKS.iter().enumerate() {
        let rest = u128::MAX.checked_shr(block.n_bits).unwrap_or(0);
        assert_eq!(block.first.to_bits() & rest, 0, "{block:?} begins in its middle");
        assert!(!block.what.is_empty() && !block.source.is_empty(), "{block:?}");
        let same =
            |other: &&AddressBlock| (other.first, other.n_bits) == (block.first, block.n_bits);
        assert_eq!(
            BLOCKS.iter().position(|other| same(&other)),
            Some(at),
            "{block:?} is there twice"
        );
    }
}

/// Addresses at the ends of every block, just outside of them, and at random places.
fn samples() -> Vec<IpAddr> {
    let mut all = Vec::new();
    for block in BLOCKS {
        let first = block.first.to_bits();
        let last = first | u128::MAX.checked_shr(block.n_bits).unwrap_or(0);
        for bits in
            [first.wrapping_sub(1), first, first + (last - first) / 3, last, last.wrapping_add(1)]
        {
            all.push(Ipv6Addr::from_bits(bits).to_canonical());
        }
    }
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for _ in 0..20_000 {
        all.push(IpAddr::from((next() as u32).to_be_bytes()));
        let bits = u128::from(next()) << 64 | u128::from(next());
        all.push(Ipv6Addr::from_bits(bits >> 3 | 1 << 125).to_canonical());
        all.push(Ipv6Addr::from_bits(bits).to_canonical());
    }
    all
}

/// An address that Python's `ipaddress` does not count as global is special here too. One that is special here alone is
/// in a block that Python counts as global, or is too old to know.
#[test]
fn python_knows_no_other_special_address() {
    const ALONE: &[&str] = &[
        "Microsoft Azure",
        "Oracle Cloud",
        "RFC 7526",
        "RFC 1112, 4",
        "RFC 2928",
        "RFC 4291, 2.4",
        "RFC 4291, 2.5.5.1",
        "RFC 4291, 2.7",
        "RFC 6890, 2.1",
        "RFC 9637",
        "RFC 9602",
        "RFC 8215",
        "RFC 3879",
    ];
    const SCRIPT: &str = "import sys, ipaddress\n\
        for line in sys.stdin: print(int(ipaddress.ip_address(line.strip()).is_global))";
    let python = Command::new("python3")
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut python) = python else {
        println!("SKIPPED: python3 is not installed");
        return;
    };
    let samples = samples();
    let mut input = python.stdin.take().expect("a pipe");
    let lines: String = samples.iter().map(|address| format!("{address}\n")).collect();
    let write = std::thread::spawn(move || input.write_all(lines.as_bytes()).expect("written"));
    let output = python.wait_with_output().expect("an output");
    write.join().expect("the writer");
    let said = String::from_utf8(output.stdout).expect("text");
    assert_eq!(said.lines().count(), samples.len());
    for (address, said) in samples.iter().zip(said.lines()) {
        // It judges the block of NAT64, not the address in it.
        let is_embedded = BLOCKS.iter().any(|block| {
            let bits = match address {
                IpAddr::V4(_) => return false,
                IpAddr::V6(address) => *address,
            };
            block.reach == Embedded && block.holds(bits)
        });
        match (special(*address), said) {
            (None, "0") => panic!("{address} is special for Python"),
            (Some(block), "1") => {
                let is_known = is_embedded || ALONE.contains(&block.source);
                assert!(is_known, "{address}: {block:?} is global for Python");
            }
            _ => {}
        }
    }
}

proptest! {
    #[test]
    fn embedded_addresses_are_judged_as_they_are(bits in any::<u32>()) {
        let plain = Ipv4Addr::from_bits(bits);
        let expected = special(IpAddr::V4(plain));
        let nat64 = Ipv6Addr::from_bits(0x64_ff9b << 96 | u128::from(bits));
        prop_assert_eq!(special(IpAddr::V6(plain.to_ipv6_mapped())), expected);
        prop_assert_eq!(special(IpAddr::V6(nat64)), expected);
    }
}
