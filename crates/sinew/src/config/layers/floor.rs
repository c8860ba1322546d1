//! The floor of the system's file: what no layer after it loosens, flags included.
//!
//! A value that is looser is held at the floor, and a warning says so with where both stand.

use serde_json::Value;

use super::tighten::{MODES, PROFILES, RUNGS, strength};
use super::{Layers, MANAGED};

/// Holds every value at the floor.
pub(super) fn hold(layers: &mut Layers) {
    for (name, key, loosest_first) in [
        ("approvals", "approvals", MODES),
        ("profile", "profile", PROFILES),
        ("require_sandbox", "run.require_sandbox", RUNGS),
    ] {
        hold_one(layers, name, key, |floor, value| {
            // What is no such word is refused later, by its name.
            let floor = strength(loosest_first, floor)?;
            let is_loose = value.is_none_or(|value| strength(loosest_first, value) < Some(floor));
            is_loose.then(|| loosest_first.get(floor).map(|word| Value::from(*word)))?
        });
    }
    hold_one(layers, "network", "run.network", |floor, value| {
        let opens = *floor == Value::Bool(false) && value == Some(&Value::Bool(true));
        opens.then_some(Value::Bool(false))
    });
    // What the system's own file trusts is trusted.
    let by_system = |layers: &Layers| {
        let (_, origin) = layers.values.get(super::TRUST_ARGUMENTS)?;
        (origin.layer() == sinew_guard::Layer::System).then_some(())
    };
    if by_system(layers).is_none() {
        hold_one(layers, "trust", super::TRUST_ARGUMENTS, |floor, value| {
            let trusts = *floor == Value::Bool(false) && value == Some(&Value::Bool(true));
            trusts.then_some(Value::Bool(false))
        });
    }
    hold_one(layers, "ledger", "ledger.mode", |floor, value| {
        let is_off = *floor == Value::Bool(true) && value != Some(&Value::from("sqlite"));
        is_off.then(|| Value::from("sqlite"))
    });
}

/// Puts what the floor gives in the place of a value that is looser.
fn hold_one(
    layers: &mut Layers,
    name: &str,
    key: &str,
    held: impl Fn(&Value, Option<&Value>) -> Option<Value>,
) {
    let Some((floor, managed)) = layers.values.get(&format!("{MANAGED}{name}")).cloned() else {
        return;
    };
    let old = layers.values.get(key);
    let Some(value) = held(&floor, old.map(|(value, _)| value)) else { return };
    if let Some((was, origin)) = old.filter(|(_, origin)| *origin != super::Origin::Default) {
        layers.warnings.push(format!(
            "{origin}: `{key} = {was}` is held at {value}, because {managed} says so for this machine"
        ));
    }
    layers.values.insert(key.to_owned(), (value, managed));
}
