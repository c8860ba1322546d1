//! Validates how pages are fetched, and who answers searches.

use std::time::Duration;

use serde_json::Value;
use sinew_guard::{HostPattern, Layer, Proxies, ProxyAddress, WebAddress, WebSettings};
use sinew_tool::{SearchProvider, SearchSettings};

use super::options::{WebFetchOptions, WebSearchOptions};
use super::{
    ConfigError, Layered, LeftOut, Options, Origin, SYSTEM_FILE, env_vars, hosts, url_policy,
};

/// The longest time of a page, in seconds.
const MAX_TIMEOUT_S: u64 = 600;
/// The longest time of an answer in the cache, in seconds: a day.
const MAX_CACHE_S: u64 = 86_400;
/// The key of the proxy.
const PROXY: &str = "tools.web_fetch.proxy";
/// The word for the proxies that variables name.
const ENVIRONMENT: &str = "environment";
/// The most redirects.
const MAX_REDIRECTS: u64 = 50;

/// Returns how pages are fetched, and who answers searches. The helper and keys are not part of the configuration.
pub(super) fn settings(options: &Options) -> Result<WebSettings, ConfigError> {
    let written = options.tools.as_ref().and_then(|tools| tools.web_fetch.clone());
    let written: WebFetchOptions = written.unwrap_or_default();
    let allow_hosts = written.allow_hosts.unwrap_or_default();
    let allow_hosts = allow_hosts.iter().map(|host| exception(host));
    let mut allow_hosts = allow_hosts.collect::<Result<Vec<_>, _>>()?;
    allow_hosts.extend(url_policy::exceptions(options)?);
    let within = |name, value: Option<u64>, default, from, to| match value.unwrap_or(default) {
        value if (from..=to).contains(&value) => Ok(value),
        value => Err(ConfigError(format!(
            "`tools.web_fetch.{name}` must be from {from} to {to}, not `{value}`"
        ))),
    };
    let timeout = within("timeout_s", written.timeout_s, 30, 1, MAX_TIMEOUT_S)?;
    let idle_timeout = within("idle_timeout_s", written.idle_timeout_s, 10, 1, MAX_TIMEOUT_S)?;
    let cache = within("cache_s", written.cache_s, 300, 0, MAX_CACHE_S)?;
    let max_redirects = within("max_redirects", written.max_redirects, 10, 0, MAX_REDIRECTS)?;
    Ok(WebSettings {
        allow_hosts,
        proxies: proxies(written.proxy.as_deref(), written.proxy_resolves)?,
        max_redirects: usize::try_from(max_redirects).unwrap_or_default(),
        timeout: Duration::from_secs(timeout),
        idle_timeout: Duration::from_secs(idle_timeout),
        cache: Duration::from_secs(cache),
        helper: None,
        search: search(options)?,
    })
}

/// Returns the proxies of an address. Those of the environment are read where it is.
fn proxies(written: Option<&str>, resolve: Option<bool>) -> Result<Proxies, ConfigError> {
    let wrong = |why: &str| {
        ConfigError(format!(
            "`tools.web_fetch.proxy` must be `{ENVIRONMENT}` or an address such as `http://proxy.example:3128`: {why}"
        ))
    };
    let address = written.filter(|written| !matches!(*written, "" | ENVIRONMENT));
    if address.is_some_and(|written| !written.contains("://")) {
        return Err(wrong("it must begin with `http://` or `https://`"));
    }
    let address = address.map(ProxyAddress::parse).transpose().map_err(|why| wrong(&why))?;
    if address.as_ref().is_some_and(ProxyAddress::has_credentials) {
        return Err(wrong("a name and a password belong in the variable `HTTPS_PROXY`"));
    }
    let resolve = resolve.unwrap_or(false);
    Ok(Proxies { http: address.clone(), https: address, resolve, ..Proxies::default() })
}

impl Layered {
    /// Returns the proxies that count, with those of the environment where the configuration names it.
    pub fn proxies(&self, written: &Proxies) -> Result<Proxies, ConfigError> {
        let proxies = if !self.has_proxies_of_environment() {
            written.clone()
        } else if self.unconfirmed().any(|left| env_vars::PROXIES.contains(&left.key.as_str())) {
            Proxies { unconfirmed: true, ..Proxies::default() }
        } else {
            let of_variables = Proxies::from_variables(env_vars::proxy).map_err(ConfigError)?;
            Proxies { resolve: written.resolve, ..of_variables }
        };
        self.hold_proxies(&proxies)?;
        Ok(proxies)
    }

    /// Leaves out the variables that name proxies, where the configuration heeds them: a repository can set them for a
    /// client's server.
    pub fn leave_out_proxies(&mut self) {
        if !self.has_proxies_of_environment() {
            return;
        }
        for name in env_vars::PROXIES {
            let Some(value) = env_vars::proxy(name) else { continue };
            // A password stays unseen.
            let shown = match ProxyAddress::parse(&value) {
                Ok(address) if !name.eq_ignore_ascii_case("NO_PROXY") => address.to_string(),
                _ => value,
            };
            let (key, value) = (name.to_owned(), Value::from(shown));
            self.left_out.push(LeftOut { key, value, origin: Origin::Variable(name) });
        }
    }

    fn has_proxies_of_environment(&self) -> bool {
        let fetch = self.options.tools.as_ref().and_then(|tools| tools.web_fetch.as_ref());
        fetch.and_then(|fetch| fetch.proxy.as_deref()) == Some(ENVIRONMENT)
    }

    /// Refuses a proxy of another layer that is not among the hosts of the system's file.
    fn hold_proxies(&self, proxies: &Proxies) -> Result<(), ConfigError> {
        let managed = self.options.managed.as_ref().and_then(|managed| managed.hosts.as_ref());
        let Some(written) = managed.filter(|_| self.origin(PROXY).layer() != Layer::System) else {
            return Ok(());
        };
        let written: Vec<&str> = written.iter().map(String::as_str).collect();
        let allowed = hosts::parse(hosts::MANAGED, &written)?;
        let is_outside = |proxy: &&ProxyAddress| {
            !allowed.iter().any(|pattern| pattern.means(&proxy.host(), false))
        };
        match proxies.http.iter().chain(&proxies.https).find(is_outside) {
            None => Ok(()),
            Some(proxy) => Err(ConfigError(format!(
                "{}: `{PROXY}` names {proxy}, which is not among `{}` of {SYSTEM_FILE}",
                self.origin(PROXY),
                hosts::MANAGED
            ))),
        }
    }
}

/// Returns who answers searches.
fn search(options: &Options) -> Result<SearchSettings, ConfigError> {
    let written = options.tools.as_ref().and_then(|tools| tools.web_search.clone());
    let WebSearchOptions { provider, searxng, endpoint, timeout_s } = written.unwrap_or_default();
    let wrong =
        |name: &str, what: String| ConfigError(format!("`tools.web_search.{name}` must be {what}"));
    let known = |name: String| {
        let known = SearchProvider::ALL.map(SearchProvider::as_str).join("`, `");
        let name = name.escape_debug().to_string();
        SearchProvider::from_word(&name)
            .ok_or_else(|| wrong("provider", format!("one of `{known}`, not `{name}`")))
    };
    let address = |name: &str, written: Option<String>| match written {
        // The original takes an empty one for none.
        None => Ok(None),
        Some(written) if written.is_empty() => Ok(None),
        Some(written) => match WebAddress::parse(&written) {
            Ok(_) => Ok(Some(written)),
            Err(why) => {
                let shown = written.escape_debug();
                let what = format!("an address with `http` or `https`, not `{shown}`: {why}");
                Err(wrong(name, what))
            }
        },
    };
    let timeout = match timeout_s.unwrap_or(15) {
        value if (1..=MAX_TIMEOUT_S).contains(&value) => Duration::from_secs(value),
        value => {
            return Err(wrong("timeout_s", format!("from 1 to {MAX_TIMEOUT_S}, not `{value}`")));
        }
    };
    Ok(SearchSettings {
        provider: provider.map(known).transpose()?,
        searxng: address("searxng", searxng)?,
        endpoint: address("endpoint", endpoint)?,
        timeout,
        ..SearchSettings::default()
    })
}

/// Parses an exception: one host and one port, since it opens the service at that port.
fn exception(written: &str) -> Result<HostPattern, ConfigError> {
    let wrong = |why: &str| {
        let host = written.escape_debug();
        ConfigError(format!(
            "`tools.web_fetch.allow_hosts` must hold hosts with ports, such as `127.0.0.1:8080`, not `{host}`: {why}"
        ))
    };
    let pattern = HostPattern::parse(written).map_err(|why| wrong(&why))?;
    match pattern.is_exact() {
        true => Ok(pattern),
        false => Err(wrong("it must name one host and one port")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(written: &str) -> Result<WebSettings, String> {
        let options: Options = toml_edit::de::from_str(written).expect("options");
        settings(&options).map_err(|error| error.to_string())
    }

    #[test]
    fn fetching_is_configured() {
        let defaults = read("").expect("defaults");
        assert_eq!(
            (defaults.timeout.as_secs(), defaults.idle_timeout.as_secs(), defaults.max_redirects),
            (30, 10, 10)
        );
        let written = "[tools.web_fetch]\nallow_hosts = ['127.0.0.1:80', '[::1]:8080']\ntimeout_s = 5\nmax_redirects = 0";
        let settings = read(written).expect("settings");
        let shown: Vec<String> = settings.allow_hosts.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["127.0.0.1:80", "[::1]:8080"]);
        assert_eq!((settings.timeout.as_secs(), settings.max_redirects), (5, 0));
        for (written, problem) in [
            ("allow_hosts = ['localhost']", "one host and one port"),
            ("allow_hosts = ['*:80']", "one host and one port"),
            ("allow_hosts = ['*.example.com:80']", "one host and one port"),
            ("allow_hosts = ['a b:80']", "not `a b:80`"),
            ("timeout_s = 0", "`tools.web_fetch.timeout_s` must be from 1 to 600"),
            ("idle_timeout_s = 601", "`tools.web_fetch.idle_timeout_s`"),
            ("cache_s = 86401", "`tools.web_fetch.cache_s` must be from 0 to 86400"),
            ("max_redirects = 51", "`tools.web_fetch.max_redirects` must be from 0 to 50"),
        ] {
            let told = read(&format!("[tools.web_fetch]\n{written}")).expect_err(written);
            assert!(told.contains(problem), "{written}: {told}");
        }
    }
}
