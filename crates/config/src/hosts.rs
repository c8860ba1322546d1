//! Parses lists of hosts.

use sinew_guard::HostPattern;

use super::ConfigError;

/// The key of the only hosts that this machine may reach.
pub(crate) const MANAGED: &str = "managed.hosts";

/// Parses the hosts of a key; the error names the first that is none.
pub(crate) fn parse(key: &str, written: &[&str]) -> Result<Vec<HostPattern>, ConfigError> {
    let one = |host: &&str| {
        HostPattern::parse(host).map_err(|why| {
            ConfigError(format!(
                "`{key}` must hold hosts such as `example.com`, `*.example.com` or `example.com:443`, not `{}`: {why}",
                host.escape_debug()
            ))
        })
    };
    written.iter().map(one).collect()
}
