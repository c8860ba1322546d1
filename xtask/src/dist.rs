//! Builds the binary that people get: static, position-independent, with packed relocations, stripped and small.
//!
//! The build is checked by what `readelf` says of it, so a toolchain that drops a flag fails the build.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The largest binary, in bytes. Of them 3 MB are the HTML parser and what reads its tree, 2 MB the client of MCP servers
/// with HTTP and sign-ins, and 2 MB the agent with its sessions, its line editor and its commands.
const MAX_BYTES: u64 = 25_000_000;
/// Flags of the compiler for every crate of the binary, and not for build scripts.
const FLAGS: &str = "-C target-feature=+crt-static -C relocation-model=pie \
                     -C link-arg=-Wl,-z,pack-relative-relocs -C link-arg=-Wl,-O2 -C strip=symbols";
/// Flags for x86-64: identical functions are folded, and the entry point is that of the sandbox crate. A linker that does
/// not find it fails.
const FOR_X86_64: &str = " --cfg sinew_start -C link-arg=-Wl,--icf=all -C link-arg=-Wl,-e,sinew_start \
                          -C link-arg=-Wl,--fatal-warnings";

/// Flags of the C compiler: C functions need no tables for unwinding, since no panic crosses them.
const C_FLAGS: &str = "-fno-asynchronous-unwind-tables -fno-unwind-tables";

/// What must be in the output of `readelf -hldSW`, or must not, and what that means.
const CHECKS: &[(&str, bool, &str)] = &[
    ("DYN (", true, "it is not position-independent"),
    (" INTERP ", false, "it is not static: it names a loader"),
    ("Entry point address:               0x0\n", false, "it has no entry point"),
    ("(NEEDED)", false, "it is not static: it needs a library"),
    ("(RELR)", true, "its relocations are not packed"),
    (".symtab", false, "it is not stripped"),
];

/// Builds and checks the binary; returns where it is.
pub(crate) fn build(root: &Path) -> Result<PathBuf> {
    let mut cargo = cargo(root, &["--bin", "sinew"])?;
    let command = executable(root, &mut cargo, "sinew")?;
    let said = Command::new("readelf").arg("-hldSW").arg(&command).output();
    let said = said.context("`readelf` does not start; install binutils")?;
    let n_bytes = std::fs::metadata(&command)?.len();
    if let Some(what) = wrong(&String::from_utf8_lossy(&said.stdout), n_bytes) {
        bail!("{}: {what}", command.display());
    }
    Ok(command)
}

/// Returns a build of a target of sinew with the profile and flags of the binary.
pub(crate) fn cargo(root: &Path, target: &[&str]) -> Result<Command> {
    let host = host(root)?;
    let words = host.replace('-', "_");
    let flags = format!("CARGO_TARGET_{}_RUSTFLAGS", words.to_uppercase());
    // The linker of other machines may not know how to fold identical functions.
    let more = if host.starts_with("x86_64") { FOR_X86_64 } else { "" };
    let mut cargo = crate::cargo_command();
    cargo.args(["build", "--profile", "dist", "--target", &host, "--package", "sinew"]);
    cargo.args(target).env(flags, format!("{FLAGS}{more}")).env(format!("CFLAGS_{words}"), C_FLAGS);
    // These would take the place of the flags.
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    Ok(cargo)
}

/// Runs a build of cargo, and returns the executable of a target.
pub(crate) fn executable(root: &Path, cargo: &mut Command, name: &str) -> Result<PathBuf> {
    let output = cargo
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("cargo does not start")?;
    if !output.status.success() {
        bail!("sinew does not build");
    }
    let lines = output.stdout.split(|byte| *byte == b'\n');
    let messages = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let mut binaries = messages.filter_map(|message| {
        let target = message.get("target")?.get("name")?.as_str()?;
        let binary = message.get("executable")?.as_str()?;
        (target == name).then(|| PathBuf::from(binary))
    });
    binaries.next_back().with_context(|| format!("cargo names no binary of {name}"))
}

/// Returns the target that is the machine's own.
fn host(root: &Path) -> Result<String> {
    let output = Command::new("rustc").arg("-vV").current_dir(root).output();
    let version = String::from_utf8(output.context("`rustc` does not start")?.stdout)?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("`rustc -vV` names no host")?.to_owned())
}

/// Returns the defect of a binary, by its size and the output of `readelf`.
fn wrong(said: &str, n_bytes: u64) -> Option<String> {
    let broken = CHECKS.iter().find(|(text, wanted, _)| said.contains(text) != *wanted);
    let too_large = MAX_BYTES < n_bytes;
    let size = too_large.then(|| format!("it has {n_bytes} bytes, {MAX_BYTES} at most"));
    broken.map(|(_, _, what)| (*what).to_owned()).or(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "  Type: DYN (Position-Independent Executable file)\n 0x24 (RELR) 0x1\n";

    #[test]
    fn binary_that_misses_a_property_is_refused() {
        let with = |more: &str| format!("{GOOD}{more}");
        for (said, n_bytes, expected) in [
            (GOOD.to_owned(), 10, None),
            (GOOD.replace("DYN", "EXEC"), 10, Some("it is not position-independent")),
            (with("  INTERP 0x31\n"), 10, Some("it is not static: it names a loader")),
            (with(" 0x1 (NEEDED) [libc.so.6]\n"), 10, Some("it is not static: it needs a library")),
            (GOOD.replace("(RELR)", "(RELA)"), 10, Some("its relocations are not packed")),
            (with("  Entry point address:               0x0\n"), 10, Some("it has no entry point")),
            (with("  Entry point address:               0x10b0238\n"), 10, None),
            (with(" [30] .symtab SYMTAB\n"), 10, Some("it is not stripped")),
            (GOOD.to_owned(), MAX_BYTES + 1, Some("it has 25000001 bytes, 25000000 at most")),
        ] {
            assert_eq!(wrong(&said, n_bytes).as_deref(), expected, "{said}");
        }
    }
}
