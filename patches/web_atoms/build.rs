//! Makes the atoms of names, and the tables of entities, from two lists of texts.
#![expect(
    clippy::disallowed_methods,
    reason = "a build script reads its lists and writes what it makes of them"
)]

use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use string_cache_codegen::AtomType;

/// Prefixes and what they stand for, by <https://infra.spec.whatwg.org/#namespaces>. The first two mean none and any.
const NAMESPACES: [(&str, &str); 8] = [
    ("", ""),
    ("*", "*"),
    ("html", "http://www.w3.org/1999/xhtml"),
    ("mathml", "http://www.w3.org/1998/Math/MathML"),
    ("svg", "http://www.w3.org/2000/svg"),
    ("xlink", "http://www.w3.org/1999/xlink"),
    ("xml", "http://www.w3.org/XML/1998/namespace"),
    ("xmlns", "http://www.w3.org/2000/xmlns/"),
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=names.txt");
    println!("cargo:rerun-if-changed=entities.txt");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    fs::write(out.join("atoms.rs"), atoms()?)?;
    fs::write(out.join("entities.rs"), entities()?)?;
    Ok(())
}

/// Returns the types of atoms with their macros.
fn atoms() -> Result<Vec<u8>, Box<dyn Error>> {
    let mut code = Vec::new();
    let mut names = AtomType::new("LocalName", "local_name!");
    for name in fs::read_to_string("names.txt")?.lines().chain([""]) {
        names.atom(name).atom(&name.to_ascii_lowercase());
    }
    names.write_to(&mut code)?;
    let prefixes = NAMESPACES.iter().map(|(prefix, _)| *prefix);
    AtomType::new("Prefix", "namespace_prefix!").atoms(prefixes).write_to(&mut code)?;
    let urls = NAMESPACES.iter().map(|(_, url)| *url);
    AtomType::new("Namespace", "namespace_url!").atoms(urls).write_to(&mut code)?;
    let mut arms = String::new();
    for (prefix, url) in NAMESPACES {
        write!(arms, "({prefix}) => {{ $crate::namespace_url!({url:?}) }};")?;
    }
    code.extend(format!("#[macro_export] macro_rules! ns {{ {arms} }}").into_bytes());
    Ok(code)
}

/// Returns one text of all names in order, where each begins, and the code points of each.
fn entities() -> Result<String, Box<dyn Error>> {
    let list = fs::read_to_string("entities.txt")?;
    let mut lines: Vec<&str> = list.lines().collect();
    lines.sort_unstable_by_key(|line| line.split(' ').next());
    let (mut names, mut starts, mut codes) = (String::new(), String::new(), String::new());
    for line in &lines {
        let mut words = line.split(' ');
        write!(starts, "{},", names.len())?;
        names.push_str(words.next().unwrap_or_default());
        let mut code = || words.next().map_or(Ok(0), |code| u32::from_str_radix(code, 16));
        write!(codes, "({},{}),", code()?, code()?)?;
    }
    let (n, end) = (lines.len(), names.len());
    Ok(format!(
        "const NAMES: &str = {names:?};\nstatic STARTS: [u16; {n} + 1] = [{starts}{end}];\n\
         static CODES: [(u32, u32); {n}] = [{codes}];"
    ))
}
