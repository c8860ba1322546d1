//! The guard against real trees: every claim runs with both ways to resolve paths.

#![expect(clippy::disallowed_methods, reason = "tests lay out real trees")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails loudly")]

mod change;
mod checkpoints;
mod commit;
mod corpora;
mod disk;
mod escape;
mod ignore_files;
mod judge;
mod kill;
mod knowledge;
mod leftover;
mod list;
mod memory;
mod memory_file;
mod moving;
mod protect;
mod race;
mod rule_forms;
mod run_rules;
mod special;
mod store;
mod tree;
mod turn;
mod walk;

/// A file without its line in `main.rs` would never run.
#[test]
fn every_file_is_part_of_the_binary() {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let main = std::fs::read_to_string(here.join("main.rs")).unwrap();
    for entry in std::fs::read_dir(here).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.trim_end_matches(".rs");
        let named = main.contains(&format!("\nmod {module};"));
        assert!(module == "main" || named, "{name} is forgotten");
    }
}
