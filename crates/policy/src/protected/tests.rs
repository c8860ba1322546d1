use std::path::PathBuf;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Looks at every rule by itself.
fn one_by_one(names: &Names, granted: &[String]) -> [Option<&'static str>; 4] {
    let until = names.filled_by_tools();
    let strongest = for_commands(granted)
        .filter(|(rule, _)| names.fall_under(rule, until))
        .max_by_key(|(_, protection)| *protection);
    let later = RUN_LATER
        .iter()
        .map(|row| row.name)
        .find(|rule| names.fall_under(rule, if rule.ends_with('/') { until + 1 } else { until }));
    let of_git = OF_GIT.into_iter().filter(|rule| *rule != GIT && !is_granted(rule, granted));
    let leads = for_commands(granted).map(|(rule, _)| rule).chain(of_git).find(|rule| {
        let parts: Vec<&str> = rule.trim_end_matches('/').split('/').collect();
        (1..parts.len()).any(|n| names.fall_under(&parts[..n].join("/"), until))
    });
    let protected = all_names().find(|rule| names.fall_under(rule, usize::MAX));
    [protected, later, leads, strongest.map(|(rule, _)| rule)]
}

fn by_index(names: &Names, granted: &[String]) -> [Option<&'static str>; 4] {
    [
        protected(names),
        run_later(names),
        leads_to_protected(names, granted),
        protection_from_commands(names, granted).map(|(rule, _)| rule),
    ]
}

/// Components of rules in several spellings, and others.
fn component() -> impl Strategy<Value = String> {
    let rules = all_names().chain(RUN_LATER.iter().map(|row| row.name)).chain([OWN_BENEATH]);
    let mut known: Vec<String> = rules
        .flat_map(|rule| rule.trim_end_matches('/').split('/'))
        .flat_map(|part| [part.replace('*', "x"), part.replace('*', ""), part.to_uppercase()])
        .collect();
    known.extend(FILLED_BY_TOOLS.iter().map(|&name| name.to_owned()));
    known.extend(["src", "x.json", "a\u{301}", ".g\u{200b}it", "Makefile"].map(String::from));
    proptest::sample::select(known)
}

proptest! {
    #[test]
    fn index_finds_what_each_rule_does(
        components in vec(component(), 1..6),
        n_above in 0_usize..3,
        granted in vec(component(), 0..2),
    ) {
        let real: PathBuf = ["/", "home"].iter().map(PathBuf::from).chain(components.iter().map(PathBuf::from)).collect();
        let n_above = n_above.min(components.len());
        let named: PathBuf = real.iter().skip(2 + n_above).collect();
        let names = Names::new(&real, &named);
        prop_assert_eq!(by_index(&names, &granted), one_by_one(&names, &granted), "{}", real.display());
    }
}
