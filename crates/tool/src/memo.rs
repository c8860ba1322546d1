//! What operations may remember between calls.

use crate::sync::lock;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// A place for what can always be computed again: compiled patterns, line indexes.
///
/// One value per type, shared by every call of a runtime. It never holds authority: no open
/// handles, no permissions.
#[derive(Default)]
pub struct Memo(Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl Memo {
    /// Returns the value of a type, made the first time it is asked for.
    pub fn get<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut values = lock(&self.0);
        let value = values.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        Arc::clone(value).downcast::<T>().unwrap_or_default()
    }
}

impl std::fmt::Debug for Memo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Memo")
    }
}
