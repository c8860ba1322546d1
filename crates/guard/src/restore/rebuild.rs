//! The commands that make directories anew which a restore sets aside.

use std::ffi::CStr;

use rustix::fs::{AtFlags, statat};
use sinew_fs::resolve::Place;

/// A directory, a file beside it, and the command that makes the directory from it. The first file that is there counts.
const COMMANDS: &[(&str, &CStr, &str)] = &[
    ("node_modules", c"package-lock.json", "npm ci"),
    ("node_modules", c"pnpm-lock.yaml", "pnpm install --frozen-lockfile"),
    ("node_modules", c"yarn.lock", "yarn install"),
    ("node_modules", c"bun.lock", "bun install --frozen-lockfile"),
    ("node_modules", c"package.json", "npm install"),
    ("target", c"Cargo.toml", "cargo build"),
    ("target", c"pom.xml", "mvn package"),
    (".venv", c"uv.lock", "uv sync"),
    (".venv", c"poetry.lock", "poetry install"),
    (
        ".venv",
        c"requirements.txt",
        "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt",
    ),
    (
        "venv",
        c"requirements.txt",
        "python3 -m venv venv && venv/bin/pip install -r requirements.txt",
    ),
    (".next", c"package.json", "npm run build"),
    (".nuxt", c"package.json", "npm run build"),
    ("dist", c"package.json", "npm run build"),
    ("dist", c"pyproject.toml", "python3 -m build"),
    ("build", c"CMakeLists.txt", "cmake -B build && cmake --build build"),
    ("build", c"package.json", "npm run build"),
    ("build", c"build.gradle.kts", "gradle build"),
    ("build", c"build.gradle", "gradle build"),
];

/// Returns the command that makes the directory at a place anew, if a file beside it says so.
pub(super) fn command(place: &Place) -> Option<&'static str> {
    let name = place.real.file_name()?;
    let mut known = COMMANDS.iter().filter(|(dir, ..)| name == *dir).peekable();
    known.peek()?;
    let above = place.parent().ok()?;
    let is_there = |file: &CStr| statat(&*above, file, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    known.find(|(_, file, _)| is_there(file)).map(|(.., command)| *command)
}
