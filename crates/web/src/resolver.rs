//! Resolves host names: `/etc/hosts`, then DNS by the name servers and search domains of `/etc/resolv.conf`.
//!
//! The system's resolver loads modules into the process, and resolves again at each connection. This one is asked
//! once for each connection, and what it answers is judged before it is used. Its files are read at each lookup.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::Duration;

use resolv_conf::ScopedIp;
use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QTYPE, Question, RCODE, TYPE};
use sinew_tool::BoxFuture;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// The port of name servers.
const DNS_PORT: u16 = 53;
/// The largest message over UDP without extensions, by RFC 1035, 4.2.1.
const MAX_UDP: usize = 512;
/// The most links of a chain of aliases that is followed in one answer.
const MAX_ALIASES: usize = 16;
/// The longest name in text, by RFC 1035, 2.3.4.
const MAX_NAME: usize = 253;

/// Resolves names; tests give their own answers.
pub trait Resolve: Send + Sync + fmt::Debug {
    /// Returns the addresses of a name, at least one.
    fn resolve(&self, name: &str) -> BoxFuture<'static, Result<Vec<IpAddr>, ResolveError>>;

    /// Returns the addresses that this host lists for a name, without asking a name server.
    fn listed(&self, name: &str) -> Vec<IpAddr> {
        let _ = name;
        Vec::new()
    }
}

/// Why a name has no addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolveError {
    /// No name server knows the name, or it has no address.
    NoAddress,
    /// No name server answered usefully, for this reason; a later try may succeed.
    NoAnswer(String),
    /// It cannot be a name.
    NoName,
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAddress => f.write_str("the name has no address"),
            Self::NoAnswer(why) => write!(f, "no name server answered: {why}"),
            Self::NoName => f.write_str("it cannot be a name"),
        }
    }
}

impl std::error::Error for ResolveError {}

/// Resolves by the files of the host and over DNS.
#[derive(Debug, Clone)]
pub struct DnsResolver {
    /// Whether short names are looked up beneath the search domains too.
    searches: bool,
    hosts: String,
    resolv_conf: String,
    port: u16,
}

impl Default for DnsResolver {
    fn default() -> Self {
        Self {
            searches: false,
            hosts: "/etc/hosts".into(),
            resolv_conf: "/etc/resolv.conf".into(),
            port: DNS_PORT,
        }
    }
}

impl DnsResolver {
    /// Returns a resolver that looks short names up beneath the search domains too. Rules do not see these.
    pub fn searching() -> Self {
        Self { searches: true, ..Self::default() }
    }
}

impl Resolve for DnsResolver {
    fn resolve(&self, name: &str) -> BoxFuture<'static, Result<Vec<IpAddr>, ResolveError>> {
        let (resolver, name) = (self.clone(), name.to_owned());
        Box::pin(async move { resolver.lookup(&name).await })
    }

    fn listed(&self, name: &str) -> Vec<IpAddr> {
        read(&self.hosts).map(|hosts| listed(&hosts, name)).unwrap_or_default()
    }
}

impl DnsResolver {
    async fn lookup(&self, name: &str) -> Result<Vec<IpAddr>, ResolveError> {
        let is_absolute = name.ends_with('.');
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        if name.is_empty() || MAX_NAME < name.len() || Name::new(&name).is_err() {
            return Err(ResolveError::NoName);
        }
        // RFC 6761, 6.3: never asked for.
        if name == "localhost" || name.ends_with(".localhost") {
            return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        let listed = listed(&read(&self.hosts)?, &name);
        if !listed.is_empty() {
            return Ok(listed);
        }
        // What it does not know in the file, it passes over, as the system's resolver does.
        let (config, _) =
            resolv_conf::Config::parse_with_errors(read(&self.resolv_conf)?.as_bytes());
        let mut last = ResolveError::NoAddress;
        for candidate in candidates(&config, &name, is_absolute || !self.searches) {
            match self.ask_for(&config, &candidate).await {
                Err(ResolveError::NoAddress) => {}
                Err(error) => last = error,
                found => return found,
            }
        }
        Err(last)
    }

    /// Asks for both kinds of addresses of one name.
    async fn ask_for(
        &self,
        config: &resolv_conf::Config,
        name: &str,
    ) -> Result<Vec<IpAddr>, ResolveError> {
        let (v4, v6) = tokio::join!(
            self.ask_servers(config, name, TYPE::A),
            self.ask_servers(config, name, TYPE::AAAA),
        );
        match (v4, v6) {
            (Ok(v4), Ok(v6)) if v4.is_empty() && v6.is_empty() => Err(ResolveError::NoAddress),
            (Ok(v4), Ok(v6)) => Ok([v4, v6].concat()),
            // Some servers fail for one kind alone. The address of the connection is judged all the same.
            (Ok(found), Err(_)) | (Err(_), Ok(found)) if !found.is_empty() => Ok(found),
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }

    /// Asks the name servers in turn, as often as is configured.
    async fn ask_servers(
        &self,
        config: &resolv_conf::Config,
        name: &str,
        kind: TYPE,
    ) -> Result<Vec<IpAddr>, ResolveError> {
        let wait = Duration::from_secs(u64::from(config.timeout.clamp(1, 30)));
        let mut servers = servers(config, self.port);
        if config.rotate && !servers.is_empty() {
            let mut random = [0];
            getrandom::fill(&mut random).map_err(|error| {
                ResolveError::NoAnswer(format!("the system gives no random numbers: {error}"))
            })?;
            let first = usize::from(random[0]) % servers.len();
            servers.rotate_left(first);
        }
        let mut why = String::from("none is configured");
        for _ in 0..config.attempts.clamp(1, 5) {
            for server in &servers {
                match timeout(wait, ask(*server, name, kind, config.use_vc)).await {
                    Ok(Ok(addresses)) => return Ok(addresses),
                    Ok(Err(error)) => why = format!("{}: {error}", server.ip()),
                    Err(_) => why = format!("{}: no answer in {} s", server.ip(), wait.as_secs()),
                }
            }
        }
        Err(ResolveError::NoAnswer(why))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the files of the host that say how names are resolved"
)]
fn read(path: &str) -> Result<String, ResolveError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(ResolveError::NoAnswer(format!("{path}: {error}"))),
    }
}

/// Returns the name servers. One on a local link is reached through the interface that is named behind its address.
fn servers(config: &resolv_conf::Config, port: u16) -> Vec<SocketAddr> {
    let servers = config.get_nameservers_or_local().into_iter();
    let servers = servers.map(|server| match server {
        ScopedIp::V4(address) => SocketAddr::new(address.into(), port),
        ScopedIp::V6(address, interface) => {
            let scope = interface.as_deref().and_then(interface_index).unwrap_or(0);
            SocketAddrV6::new(address, port, 0, scope).into()
        }
    });
    servers.collect()
}

/// Returns the index of a network interface by its name, or by its index in digits.
fn interface_index(name: &str) -> Option<u32> {
    name.parse().ok().or_else(|| {
        let is_name = !name.contains('/') && !name.starts_with('.');
        let index = read(&format!("/sys/class/net/{name}/ifindex")).ok().filter(|_| is_name)?;
        index.trim().parse().ok()
    })
}

/// Returns the addresses that `/etc/hosts` lists for a name.
fn listed(hosts: &str, name: &str) -> Vec<IpAddr> {
    let lines = hosts.lines().map(|line| line.split('#').next().unwrap_or_default());
    lines
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let address = words.next()?.parse().ok()?;
            words
                .any(|word| word.trim_end_matches('.').eq_ignore_ascii_case(name))
                .then_some(address)
        })
        .collect()
}

/// Returns the names to ask for, in order: a name of few labels is tried beneath the search domains first.
fn candidates(config: &resolv_conf::Config, name: &str, is_absolute: bool) -> Vec<String> {
    if is_absolute {
        return vec![name.to_owned()];
    }
    let domains =
        config.get_last_search_or_domain().map(|domain| domain.trim_end_matches('.').to_owned());
    let mut candidates: Vec<String> = domains
        .filter(|domain| !domain.is_empty())
        .map(|domain| format!("{name}.{domain}"))
        .collect();
    let n_dots = name.bytes().filter(|byte| *byte == b'.').count();
    let at = if config.ndots as usize <= n_dots { 0 } else { candidates.len() };
    candidates.insert(at, name.to_owned());
    candidates
}

/// Asks one name server, over TCP where its answer does not fit into a message of UDP.
async fn ask(
    server: SocketAddr,
    name: &str,
    kind: TYPE,
    over_tcp: bool,
) -> io::Result<Vec<IpAddr>> {
    // Answers that others forge must guess it, beside the port.
    let mut id = [0; 2];
    getrandom::fill(&mut id).map_err(io::Error::other)?;
    let id = u16::from_be_bytes(id);
    let mut query = Packet::new_query(id);
    query.set_flags(PacketFlag::RECURSION_DESIRED);
    let asked = Name::new(name).map_err(io::Error::other)?;
    query.questions.push(Question::new(asked, QTYPE::TYPE(kind), CLASS::IN.into(), false));
    let query = query.build_bytes_vec().map_err(io::Error::other)?;
    if !over_tcp {
        let local: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind(SocketAddr::new(local, 0)).await?;
        socket.connect(server).await?;
        socket.send(&query).await?;
        let mut buffer = [0; MAX_UDP];
        loop {
            let n = socket.recv(&mut buffer).await?;
            match read_answer(buffer.get(..n).unwrap_or_default(), id, name, kind) {
                Answer::Addresses(addresses) => return Ok(addresses),
                Answer::Refused(why) => return Err(io::Error::other(why)),
                Answer::Truncated => break,
                // What does not answer this question may come before what does.
                Answer::Other => {}
            }
        }
    }
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(query.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes()[..], &query].concat()).await?;
    let length = stream.read_u16().await?;
    let mut buffer = vec![0; usize::from(length)];
    stream.read_exact(&mut buffer).await?;
    match read_answer(&buffer, id, name, kind) {
        Answer::Addresses(addresses) => Ok(addresses),
        Answer::Refused(why) => Err(io::Error::other(why)),
        Answer::Truncated | Answer::Other => {
            Err(io::Error::other("its answer is to another question"))
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    /// Its addresses; none if the name has none of this kind or does not exist.
    Addresses(Vec<IpAddr>),
    /// The server cannot say.
    Refused(String),
    /// It does not fit into the message.
    Truncated,
    /// It does not answer this question.
    Other,
}

/// Reads what a name server sent.
fn read_answer(bytes: &[u8], id: u16, name: &str, kind: TYPE) -> Answer {
    let Ok(packet) = Packet::parse(bytes) else { return Answer::Other };
    let is_asked = |question: &Question<'_>| {
        same(&question.qname, name) && question.qtype == QTYPE::TYPE(kind)
    };
    let is_asked = matches!(packet.questions.as_slice(), [question] if is_asked(question));
    if packet.id() != id || !packet.has_flags(PacketFlag::RESPONSE) || !is_asked {
        return Answer::Other;
    }
    if packet.has_flags(PacketFlag::TRUNCATION) {
        return Answer::Truncated;
    }
    match packet.rcode() {
        RCODE::NoError => {}
        RCODE::NameError => return Answer::Addresses(Vec::new()),
        other => return Answer::Refused(format!("it says {other:?}")),
    }
    // Aliases lead from the name to the one that has the addresses.
    let mut meant = name.to_owned();
    for _ in 0..MAX_ALIASES {
        let mut addresses = Vec::new();
        let mut next = None;
        for record in packet.answers.iter().filter(|record| same(&record.name, &meant)) {
            match &record.rdata {
                RData::A(found) => addresses.push(Ipv4Addr::from_bits(found.address).into()),
                RData::AAAA(found) => addresses.push(Ipv6Addr::from_bits(found.address).into()),
                RData::CNAME(alias) => next = Some(alias.0.to_string()),
                _ => {}
            }
        }
        match next {
            Some(next) if addresses.is_empty() => meant = next,
            _ => return Answer::Addresses(addresses),
        }
    }
    Answer::Refused(String::from("its aliases lead nowhere"))
}

fn same(name: &Name<'_>, text: &str) -> bool {
    name.to_string().trim_end_matches('.').eq_ignore_ascii_case(text.trim_end_matches('.'))
}

#[cfg(test)]
mod tests;
