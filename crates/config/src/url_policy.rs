//! `[tools.urlPolicy]` of the dialect clawft: hosts that are denied, and hosts that need not be public.
//!
//! The original can switch every check of addresses off. Here that only warns, because a dialect loosens nothing.

use sinew_guard::HostPattern;

use super::options::UrlPolicyOptions;
use super::{ConfigError, Options};

/// The key of the hosts that are denied.
pub(super) const BLOCKED: &str = "tools.urlPolicy.blockedDomains";
/// The key of the hosts that need not be public.
const ALLOWED: &str = "tools.urlPolicy.allowedDomains";
/// The ports of the hosts that need not be public.
const PORTS: [u16; 2] = [80, 443];

/// Returns the hosts that are denied, in every dialect: each name with all names beneath it.
pub(super) fn blocked(options: &Options) -> Result<Vec<HostPattern>, ConfigError> {
    let written = options.tools.as_ref().and_then(|tools| tools.url_policy.clone());
    let UrlPolicyOptions { blocked_domains, .. } = written.unwrap_or_default();
    let mut hosts = Vec::new();
    for name in blocked_domains.unwrap_or_default() {
        let patterns = patterns(&name);
        if patterns.is_empty() {
            return Err(no_host(BLOCKED, &name));
        }
        hosts.extend(patterns);
    }
    Ok(hosts)
}

/// Returns the hosts that need not be public, each with its port.
pub(super) fn exceptions(options: &Options) -> Result<Vec<HostPattern>, ConfigError> {
    let UrlPolicyOptions { allowed_domains, .. } = of_dialect(options);
    let mut hosts = Vec::new();
    for name in allowed_domains.unwrap_or_default() {
        for port in PORTS {
            // An IPv6 address needs brackets before a port.
            let is_bare = name.matches(':').count() > 1 && !name.starts_with('[');
            let written =
                if is_bare { format!("[{name}]:{port}") } else { format!("{name}:{port}") };
            let pattern = HostPattern::parse(&written).ok().filter(HostPattern::is_exact);
            hosts.push(pattern.ok_or_else(|| no_host(ALLOWED, &name))?);
        }
    }
    Ok(hosts)
}

/// Returns the patterns that mean a host and all names beneath it; none for a name that is no host.
pub(super) fn patterns(name: &str) -> Vec<HostPattern> {
    let name = name.strip_prefix("*.").unwrap_or(name);
    // No names are beneath an address.
    let written = [format!("*.{name}"), name.to_owned()];
    written.iter().filter_map(|host| HostPattern::parse(host).ok()).collect()
}

fn of_dialect(options: &Options) -> UrlPolicyOptions {
    let is_clawft = options.dialect.as_deref() == Some(sinew_dialects::CLAWFT.name);
    let written = options.tools.as_ref().and_then(|tools| tools.url_policy.clone());
    written.filter(|_| is_clawft).unwrap_or_default()
}

fn no_host(key: &str, name: &str) -> ConfigError {
    let name = name.escape_debug();
    ConfigError(format!("`{key}` must hold hosts such as `wiki.example`, not `{name}`"))
}

/// Returns the keys that would switch checks of addresses off.
pub(super) fn loosening(options: &Options) -> Vec<&'static str> {
    let UrlPolicyOptions { enabled, allow_private, .. } = of_dialect(options);
    let keys = [
        ("tools.urlPolicy.enabled", enabled == Some(false)),
        ("tools.urlPolicy.allowPrivate", allow_private == Some(true)),
    ];
    keys.into_iter().filter(|(_, loosens)| *loosens).map(|(key, _)| key).collect()
}

/// Returns the warning about such a key.
pub(super) fn warning(key: &str) -> String {
    format!(
        "`{key}` changes nothing: addresses are always checked; a host that is not public is allowed by its name in \
         `{ALLOWED}`, or with its port in `tools.web_fetch.allow_hosts`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(written: &str) -> Options {
        toml_edit::de::from_str(&format!("dialect = 'clawft'\n{written}")).expect("options")
    }

    fn shown(hosts: Result<Vec<HostPattern>, ConfigError>) -> Result<Vec<String>, String> {
        let hosts = hosts.map_err(|error| error.to_string())?;
        Ok(hosts.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn keys_that_would_loosen_are_known() {
        for (written, expected) in [
            ("enabled = false", &["tools.urlPolicy.enabled"][..]),
            ("allowPrivate = true", &["tools.urlPolicy.allowPrivate"]),
            ("enabled = true\nallowPrivate = false", &[]),
        ] {
            let options = read(&format!("[tools.urlPolicy]\n{written}"));
            assert_eq!(loosening(&options), expected, "{written}");
            let other = Options { dialect: None, ..options };
            assert!(loosening(&other).is_empty(), "{written}");
        }
    }

    #[test]
    fn hosts_are_denied_or_excepted() {
        let list = |hosts: &[&str]| Ok(hosts.iter().map(ToString::to_string).collect::<Vec<_>>());
        for (key, written, expected) in [
            ("blockedDomains", "x.org", list(&["*.x.org", "x.org"])),
            ("blockedDomains", "*.x.org", list(&["*.x.org", "x.org"])),
            ("blockedDomains", "10.0.0.1", list(&["10.0.0.1"])),
            ("blockedDomains", "a b", Err("not `a b`")),
            ("blockedDomains", "", Err("not ``")),
            ("allowedDomains", "wiki.example", list(&["wiki.example:80", "wiki.example:443"])),
            ("allowedDomains", "::1", list(&["[::1]:80", "[::1]:443"])),
            ("allowedDomains", "*.example", Err("not `*.example`")),
            ("allowedDomains", "*", Err("not `*`")),
            ("allowedDomains", "wiki.example:8080", Err("not `wiki.example:8080`")),
        ] {
            let options = read(&format!("[tools.urlPolicy]\n{key} = ['{written}']"));
            let of_key = if key == "blockedDomains" { blocked } else { exceptions };
            match (shown(of_key(&options)), expected) {
                (Err(error), Err(part)) => {
                    assert!(error.contains(key) && error.contains(part), "{error}");
                }
                (hosts, expected) => {
                    assert_eq!(hosts, expected.map_err(str::to_owned), "{key} {written}");
                }
            }
            let other = Options { dialect: Some(String::from("native")), ..options.clone() };
            match key {
                "blockedDomains" => assert_eq!(shown(of_key(&other)), shown(of_key(&options))),
                _ => assert_eq!(shown(of_key(&other)), Ok(Vec::new()), "{key} {written}"),
            }
        }
    }
}
