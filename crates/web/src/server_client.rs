//! HTTP clients for one server that the user named by its address, such as an MCP server, and for a sign-in there.

use std::sync::Arc;

use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, StatusCode, Url};

use crate::address::{JudgedResolver, OnlyNames, judge};
use crate::http::{HttpAddress, builder, words};
use crate::resolver::{DnsResolver, Resolve};

/// The most redirects that are followed, all within the server.
const MAX_REDIRECTS: usize = 3;

/// Returns a client that resolves the name of this server alone, uses no proxy, and follows a redirect only within the
/// server and where the request stays as it is (307, 308).
pub fn server_client(address: &HttpAddress) -> Result<Client, String> {
    let resolver: Arc<dyn Resolve> = Arc::new(DnsResolver::searching());
    let names = vec![address.url().host_str().unwrap_or_default().to_owned()];
    let resolver = Arc::new(OnlyNames { resolver, names });
    let builder = builder().redirect(Policy::custom(within_server));
    let builder = builder.dns_resolver(Arc::new(JudgedResolver { resolver, public_only: false }));
    let builder = match address.is_encrypted() {
        true => builder.https_only(true),
        // Loopback needs no certificates, and the host may have none.
        false => builder.tls_certs_only([]),
    };
    builder.build().map_err(|error| words(&error))
}

fn within_server(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let is_kept =
        matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let is_within = |from: &Url| from.origin() == attempt.url().origin();
    let is_own = attempt.previous().first().is_some_and(is_within);
    match is_kept && is_own && attempt.previous().len() <= MAX_REDIRECTS {
        true => attempt.follow(),
        false => attempt.stop(),
    }
}

/// Sends the requests of a sign-in at a server: to the server itself, and to the authorization server that it names.
///
/// What a server names is the word of a stranger: it must be public and prove its name, unless the server that names it
/// is on this machine, or it is the server itself.
#[derive(Debug)]
pub struct SignInClient {
    server: HttpAddress,
    own: Client,
    others: Client,
}

impl SignInClient {
    /// Returns a client for a sign-in at this server.
    pub fn new(server: HttpAddress) -> Result<Self, String> {
        let own = server_client(&server)?;
        let public_only = !server.is_loopback();
        let resolver: Arc<dyn Resolve> = Arc::new(DnsResolver::default());
        let resolver = Arc::new(JudgedResolver { resolver, public_only });
        let others = builder().dns_resolver(resolver).build().map_err(|error| words(&error))?;
        Ok(Self { server, own, others })
    }

    /// Returns the client for an address, or why it may not be reached.
    pub fn client(&self, url: &str) -> Result<&Client, String> {
        let address = HttpAddress::parse(url)?;
        if address.server() == self.server.server() {
            return Ok(&self.own);
        }
        if !self.server.is_loopback() {
            let host = address.url().host_str().unwrap_or_default().trim_matches(['[', ']']);
            if address.is_loopback() {
                return Err(String::from("a server elsewhere names this machine"));
            }
            // A literal address never reaches the resolver.
            if let Ok(literal) = host.parse() {
                judge(&[literal]).map_err(|error| error.to_string())?;
            }
        }
        Ok(&self.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> HttpAddress {
        HttpAddress::parse(text).expect(text)
    }

    #[test]
    fn a_sign_in_leads_to_public_hosts_alone() {
        for (server, url, refused) in [
            ("https://a.test/mcp", "https://a.test/token", None),
            ("https://a.test/mcp", "https://b.test/token", None),
            ("https://a.test/mcp", "http://b.test/token", Some("use `https`")),
            ("https://a.test/mcp", "http://127.0.0.1:1/", Some("names this machine")),
            ("https://a.test/mcp", "https://localhost/", Some("names this machine")),
            ("https://a.test/mcp", "https://10.0.0.1/", Some("private network")),
            ("https://a.test/mcp", "https://[fd00::1]/", Some("leads to")),
            ("https://a.test/mcp", "https://169.254.169.254/", Some("metadata")),
            ("https://10.0.0.1/mcp", "https://10.0.0.1/token", None),
            ("https://10.0.0.1/mcp", "https://10.0.0.2/token", Some("private network")),
            ("http://127.0.0.1:1/mcp", "http://127.0.0.1:2/token", None),
            ("http://127.0.0.1:1/mcp", "file:///etc/passwd", Some("must begin with")),
        ] {
            let client = SignInClient::new(address(server)).expect(server);
            match (client.client(url), refused) {
                (Ok(_), None) => {}
                (Err(why), Some(part)) => assert!(why.contains(part), "{server} {url}: {why}"),
                (other, _) => panic!("{server} {url}: {other:?}"),
            }
        }
    }
}
