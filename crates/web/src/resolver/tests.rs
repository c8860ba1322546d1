#![expect(clippy::disallowed_methods, reason = "tests write the files that they resolve by")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use simple_dns::ResourceRecord;
use simple_dns::rdata::{A, AAAA, CNAME};
use tokio::net::TcpListener;

use super::*;

/// What the name server of a test does with a question.
#[derive(Debug, Clone, Copy)]
enum Does {
    /// Answers with its records: a name, and an address or another name.
    Records(&'static [(&'static str, &'static str)]),
    /// Says that there is no such name.
    NoSuchName,
    /// Says that it failed.
    Fails,
    /// Answers over TCP only.
    Truncates(&'static [(&'static str, &'static str)]),
    /// Answers another question first, as one who forges answers would.
    Forged(&'static [(&'static str, &'static str)]),
    /// Says nothing.
    Silent,
}

fn answer(query: &[u8], does: Does, over_tcp: bool) -> Vec<Vec<u8>> {
    let query = Packet::parse(query).expect("a query");
    let question = &query.questions[0];
    let kind = question.qtype;
    let mut reply = Packet::new_reply(query.id());
    reply.questions.push(question.clone());
    let records = match does {
        Does::Records(records) | Does::Forged(records) => records,
        Does::NoSuchName => {
            *reply.rcode_mut() = RCODE::NameError;
            &[]
        }
        Does::Fails => {
            *reply.rcode_mut() = RCODE::ServerFailure;
            &[]
        }
        Does::Truncates(_) if !over_tcp => {
            reply.set_flags(PacketFlag::TRUNCATION);
            &[]
        }
        Does::Truncates(records) => records,
        Does::Silent => return Vec::new(),
    };
    for (name, value) in records {
        let data = match value.parse() {
            Ok(IpAddr::V4(address)) => RData::A(A { address: address.to_bits() }),
            Ok(IpAddr::V6(address)) => RData::AAAA(AAAA { address: address.to_bits() }),
            Err(_) => RData::CNAME(CNAME(Name::new_unchecked(value))),
        };
        let fits = match &data {
            RData::A(_) => kind == QTYPE::TYPE(TYPE::A),
            RData::AAAA(_) => kind == QTYPE::TYPE(TYPE::AAAA),
            _ => true,
        };
        if fits {
            reply.answers.push(ResourceRecord::new(Name::new_unchecked(name), CLASS::IN, 60, data));
        }
    }
    let sent = reply.build_bytes_vec().expect("a message");
    match does {
        Does::Forged(_) => {
            let mut other = sent.clone();
            other[0] ^= 0xff;
            vec![b"noise".to_vec(), other, sent]
        }
        _ => vec![sent],
    }
}

/// Serves DNS on loopback over UDP and TCP; returns its port and the number of questions.
async fn serve(does: Does) -> (u16, Arc<AtomicUsize>) {
    // Another test may have the other socket of this port.
    let (udp, tcp) = loop {
        let udp = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        let port = udp.local_addr().expect("an address").port();
        if let Ok(tcp) = TcpListener::bind(("127.0.0.1", port)).await {
            break (udp, tcp);
        }
    };
    let port = udp.local_addr().expect("an address").port();
    let n_asked = Arc::new(AtomicUsize::new(0));
    let asked = Arc::clone(&n_asked);
    tokio::spawn(async move {
        let mut buffer = [0; MAX_UDP];
        while let Ok((n, from)) = udp.recv_from(&mut buffer).await {
            asked.fetch_add(1, Ordering::Relaxed);
            for message in answer(&buffer[..n], does, false) {
                udp.send_to(&message, from).await.expect("sent");
            }
        }
    });
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = tcp.accept().await {
            let length = stream.read_u16().await.expect("a length");
            let mut query = vec![0; usize::from(length)];
            stream.read_exact(&mut query).await.expect("a query");
            for message in answer(&query, does, true) {
                let length = u16::try_from(message.len()).expect("a short message");
                stream
                    .write_all(&[&length.to_be_bytes()[..], &message].concat())
                    .await
                    .expect("sent");
            }
        }
    });
    (port, n_asked)
}

async fn check(does: Does, name: &str, config: &str, hosts: &str, expected: Result<&[&str], &str>) {
    let dir = tempfile::tempdir().expect("a directory");
    let (resolv_conf, hosts_file) = (dir.path().join("resolv.conf"), dir.path().join("hosts"));
    std::fs::write(
        &resolv_conf,
        format!("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n{config}"),
    )
    .expect("written");
    std::fs::write(&hosts_file, hosts).expect("written");
    let (port, n_asked) = serve(does).await;
    let resolver = DnsResolver {
        searches: config.contains("search"),
        hosts: hosts_file.display().to_string(),
        resolv_conf: resolv_conf.display().to_string(),
        port,
    };
    let found = resolver.resolve(name).await;
    match (&found, expected) {
        (Ok(found), Ok(expected)) => {
            let found: Vec<String> = found.iter().map(IpAddr::to_string).collect();
            assert_eq!(found, expected, "{name} {does:?}");
        }
        (Err(error), Err(expected)) => {
            assert!(error.to_string().contains(expected), "{name} {does:?}: {error}");
        }
        _ => panic!("{name} {does:?}: {found:?}"),
    }
    if name == "localhost" || !hosts.is_empty() {
        assert_eq!(n_asked.load(Ordering::Relaxed), 0, "{name} is not asked for");
    }
}

const BOTH: &[(&str, &str)] =
    &[("a.test", "192.0.2.1"), ("a.test", "192.0.2.2"), ("a.test", "2001:db8::1")];
const BOTH_FOUND: &[&str] = &["192.0.2.1", "192.0.2.2", "2001:db8::1"];
const ALIAS: &[(&str, &str)] =
    &[("a.test", "b.test"), ("b.test", "c.test"), ("c.test", "192.0.2.3"), ("d.test", "192.0.2.4")];
const LOOP: &[(&str, &str)] = &[("a.test", "b.test"), ("b.test", "a.test")];
const SEARCHED: &[(&str, &str)] = &[("short.corp.test", "192.0.2.5")];

#[tokio::test]
async fn names_are_resolved() {
    for (does, name, config, hosts, expected) in [
        (Does::Records(BOTH), "a.test", "", "", Ok(BOTH_FOUND)),
        (Does::Records(BOTH), "A.Test.", "", "", Ok(BOTH_FOUND)),
        (Does::Truncates(BOTH), "a.test", "", "", Ok(BOTH_FOUND)),
        (Does::Records(BOTH), "a.test", "options use-vc\n", "", Ok(BOTH_FOUND)),
        (Does::Forged(BOTH), "a.test", "", "", Ok(BOTH_FOUND)),
        (Does::Records(ALIAS), "a.test", "", "", Ok(&["192.0.2.3"][..])),
        (Does::Records(LOOP), "a.test", "", "", Err("aliases lead nowhere")),
        (Does::Records(&[]), "a.test", "", "", Err("no address")),
        (Does::NoSuchName, "a.test", "", "", Err("no address")),
        (Does::Fails, "a.test", "", "", Err("ServerFailure")),
        (Does::Silent, "a.test", "", "", Err("no answer in 1 s")),
        (Does::Records(SEARCHED), "short", "search corp.test\n", "", Ok(&["192.0.2.5"][..])),
        (Does::Records(SEARCHED), "short.", "search corp.test\n", "", Err("no address")),
        (
            Does::Fails,
            "listed",
            "",
            "# x\n192.0.2.6 other LISTED # y\n::1 z",
            Ok(&["192.0.2.6"][..]),
        ),
        (Does::Fails, "localhost", "", "", Ok(&["127.0.0.1", "::1"][..])),
        (Does::Fails, "a.b.localhost", "", "", Ok(&["127.0.0.1", "::1"][..])),
        (Does::Fails, "", "", "", Err("cannot be a name")),
        (Does::Fails, &"a.".repeat(200), "", "", Err("cannot be a name")),
        (Does::Fails, &"a".repeat(64), "", "", Err("cannot be a name")),
    ] {
        check(does, name, config, hosts, expected).await;
    }
}

#[test]
fn names_of_few_labels_are_searched_first() {
    let config = resolv_conf::Config::parse("search one.test two.test.\noptions ndots:2")
        .expect("a configuration");
    for (name, is_absolute, expected) in [
        ("a", false, &["a.one.test", "a.two.test", "a"][..]),
        ("a.b", false, &["a.b.one.test", "a.b.two.test", "a.b"]),
        ("a.b.c", false, &["a.b.c", "a.b.c.one.test", "a.b.c.two.test"]),
        ("a", true, &["a"]),
    ] {
        assert_eq!(candidates(&config, name, is_absolute), expected, "{name}");
    }
}

#[test]
fn hostile_answers_are_nothing() {
    let good = {
        let mut query = Packet::new_query(7);
        let name = Name::new_unchecked("a.test");
        query.questions.push(Question::new(name, QTYPE::TYPE(TYPE::A), CLASS::IN.into(), false));
        answer(&query.build_bytes_vec().expect("a message"), Does::Records(BOTH), false).remove(0)
    };
    let found = Answer::Addresses(vec!["192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap()]);
    assert_eq!(read_answer(&good, 7, "a.test", TYPE::A), found);
    for (id, name, kind) in
        [(8, "a.test", TYPE::A), (7, "b.test", TYPE::A), (7, "a.test", TYPE::AAAA)]
    {
        assert_eq!(read_answer(&good, id, name, kind), Answer::Other, "{id} {name} {kind:?}");
    }
    for n in 0..good.len() {
        // Cut or changed anywhere, it is read without a panic.
        read_answer(&good[..n], 7, "a.test", TYPE::A);
        for change in [1, 0x80, 0xff] {
            let mut changed = good.clone();
            changed[n] ^= change;
            read_answer(&changed, 7, "a.test", TYPE::A);
        }
    }
}

#[test]
fn name_servers_keep_their_interface() {
    let index = fs_index("lo");
    for (line, expected) in [
        ("nameserver 9.9.9.9", String::from("9.9.9.9:53")),
        ("nameserver 2620:fe::fe", String::from("[2620:fe::fe]:53")),
        ("nameserver fe80::1%7", String::from("[fe80::1%7]:53")),
        ("nameserver fe80::1%lo", format!("[fe80::1%{index}]:53")),
        ("nameserver fe80::1%nothere0", String::from("[fe80::1]:53")),
    ] {
        let config = resolv_conf::Config::parse(line).expect("a configuration");
        let shown: Vec<String> = servers(&config, 53).iter().map(ToString::to_string).collect();
        assert_eq!(shown, [expected], "{line}");
    }
}

/// Returns the index that the kernel gives an interface.
fn fs_index(name: &str) -> u32 {
    let index = read(&format!("/sys/class/net/{name}/ifindex")).expect("an interface");
    index.trim().parse().expect("a number")
}
