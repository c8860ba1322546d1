//! Enforces the floor of the system's file, which no later layer loosens, flags included.
//!
//! A looser value is raised to the floor, with a warning that names both origins. An invalid floor is an
//! error, because a floor without effect would be worse than none.

use serde_json::Value;
use sinew_guard::Layer;

use super::super::ConfigError;
use super::keys::{Floor, KEYS, Key, LEVELS, MODES, PROFILES, Tightens};
use super::tighten::strength;
use super::{Layers, MANAGED, Origin, TRUST_ARGUMENTS, words};
use crate::hosts;
use crate::lines::RULES;

/// Raises every value to the floor. Returns whether other layers may not allow calls.
pub(super) fn hold(layers: &mut Layers) -> Result<bool, ConfigError> {
    check(layers)?;
    for key in KEYS {
        if let Some(floor) = key.floor {
            hold_key(layers, key, floor);
        }
    }
    hold_profile(layers);
    // Without at least Landlock the network setting has no effect.
    hold_one(layers, "network", "run.require_sandbox", |floor, value| {
        let walls = Value::from("landlock");
        let is_open = value.is_none_or(|value| strength(LEVELS, value) < strength(LEVELS, &walls));
        (*floor == Value::Bool(false) && is_open).then_some(walls)
    });
    Ok(hold_rules(layers))
}

/// Raises the value of one key to its floor.
fn hold_key(layers: &mut Layers, key: &Key, floor: Floor) {
    match floor {
        Floor::AtLeast(name) => {
            let Tightens::Word(loosest_first, usual) = key.tightens else { return };
            hold_one(layers, name, key.name, |floor, value| {
                // An unknown word is rejected later, with its key.
                let floor = strength(loosest_first, floor)?;
                // A floor below the default must not lower it.
                let usual = Value::from(usual);
                let is_loose = strength(loosest_first, value.unwrap_or(&usual)) < Some(floor);
                is_loose.then(|| loosest_first.get(floor).map(|word| Value::from(*word)))?
            });
        }
        Floor::StaysFalse(name) => {
            // The system's own file may trust.
            let own = layers.values.get(key.name).map(|(_, origin)| origin.layer());
            if key.name == TRUST_ARGUMENTS && own == Some(Layer::System) {
                return;
            }
            hold_one(layers, name, key.name, |floor, value| {
                let opens = *floor == Value::Bool(false) && value == Some(&Value::Bool(true));
                opens.then_some(Value::Bool(false))
            });
        }
        Floor::Fixes(name, word) => hold_one(layers, name, key.name, |floor, value| {
            let is_looser = *floor == Value::Bool(true) && value != Some(&Value::from(word));
            is_looser.then(|| Value::from(word))
        }),
        Floor::OfSystem(name, loosest_first) => {
            let of_system = layers.of_system.get(key.name).map(|(value, _)| value.clone());
            hold_one(layers, name, key.name, |floor, value| {
                let of_system = of_system.as_ref().filter(|_| *floor == Value::Bool(true))?;
                keeps_less(loosest_first, value, of_system).then(|| of_system.clone())
            });
        }
    }
}

/// Limits the profile to `workspace` if the floor makes calls ask, since looser ones do not ask.
/// The system's own file may set them.
fn hold_profile(layers: &mut Layers) {
    let workspace = strength(PROFILES, &Value::from("workspace"));
    let is_looser = |value: &Value| strength(PROFILES, value).is_some_and(|n| Some(n) < workspace);
    if layers.of_system.get("profile").is_some_and(|(value, _)| is_looser(value)) {
        return;
    }
    hold_one(layers, "approvals", "profile", |floor, value| {
        let asks = Some(0) < strength(MODES, floor);
        (asks && value.is_some_and(is_looser)).then(|| Value::from("workspace"))
    });
}

/// Rejects an invalid floor.
fn check(layers: &Layers) -> Result<(), ConfigError> {
    let managed = |name: &str| layers.values.get(&format!("{MANAGED}{name}"));
    for key in KEYS {
        let (Some(Floor::AtLeast(name)), Tightens::Word(known, _)) = (key.floor, key.tightens)
        else {
            continue;
        };
        let Some((value, origin)) = managed(name) else { continue };
        if strength(known, value).is_none() {
            return Err(ConfigError(format!(
                "{origin}: `{MANAGED}{name}` must be one of {}, not {value}",
                known.join(", ")
            )));
        }
    }
    if let Some((written, origin)) = managed("hosts") {
        hosts::parse(hosts::MANAGED, &words(written))
            .map_err(|error| ConfigError(format!("{origin}: {error}")))?;
    }
    let Some((roots, origin)) = managed("roots") else { return Ok(()) };
    match words(roots).iter().find(|root| !root.starts_with('/')) {
        None => Ok(()),
        Some(root) => Err(ConfigError(format!(
            "{origin}: `{MANAGED}roots` must hold absolute paths, not {root:?}"
        ))),
    }
}

/// Returns whether a ledger value keeps less than another.
fn keeps_less(loosest_first: &[&str], value: Option<&Value>, than: &Value) -> bool {
    let days = |value: &Value| value.as_u64().filter(|n| *n != 0).unwrap_or(u64::MAX);
    match (value, loosest_first) {
        (None, _) => true,
        (Some(value), []) => days(value) < days(than),
        // An unknown word is rejected later, with its key.
        (Some(value), words) => {
            strength(words, value).is_some_and(|word| Some(word) < strength(words, than))
        }
    }
}

/// Drops other layers' allow rules if the floor makes calls ask, since an allowed call never asks.
/// Returns whether it does.
fn hold_rules(layers: &mut Layers) -> bool {
    let asks = [("approvals", MODES), ("profile", PROFILES)].into_iter().find_map(
        |(name, loosest_first)| {
            let (floor, origin) = layers.values.get(&format!("{MANAGED}{name}"))?;
            (Some(0) < strength(loosest_first, floor)).then(|| origin.clone())
        },
    );
    let Some(managed) = asks else { return false };
    let Some((Value::Array(all), _)) = layers.values.get_mut(RULES) else { return true };
    let (written, origins) = (std::mem::take(all), std::mem::take(&mut layers.rules));
    for (rule, origin) in written.into_iter().zip(origins) {
        let allows = rule.get("verdict").and_then(Value::as_str) == Some("allow");
        if allows && origin.layer() != Layer::System {
            layers.warnings.push(format!(
                "{origin}: a rule that allows is left out, because {managed} says for this machine what is \
                 asked"
            ));
            continue;
        }
        all.push(rule);
        layers.rules.push(origin);
    }
    true
}

/// Replaces a looser value with the floor's.
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
    if let Some((was, origin)) = old.filter(|(_, origin)| *origin != Origin::Default) {
        layers.warnings.push(format!(
            "{origin}: `{key} = {was}` is held at {value}, because {managed} says so for this machine"
        ));
    }
    layers.values.insert(key.to_owned(), (value, managed));
}
