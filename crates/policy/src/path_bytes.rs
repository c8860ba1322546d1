//! Paths in messages between processes, for `#[serde(with = "path_bytes")]`. serde has a path as text, which fails for a name
//! that is not UTF-8.

use std::collections::HashSet;
use std::ffi::OsString;
use std::hash::Hash;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize as _, Deserializer, Serialize, Serializer};

/// A value with paths, and what is sent in its place.
pub trait PathBytes: Clone {
    type Sent: Serialize + DeserializeOwned;

    fn into_sent(self) -> Self::Sent;
    fn of_sent(sent: Self::Sent) -> Self;
}

pub fn serialize<S: Serializer>(value: &impl PathBytes, serializer: S) -> Result<S::Ok, S::Error> {
    value.clone().into_sent().serialize(serializer)
}

pub fn deserialize<'de, T: PathBytes, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    T::Sent::deserialize(deserializer).map(T::of_sent)
}

impl PathBytes for PathBuf {
    type Sent = OsString;

    fn into_sent(self) -> OsString {
        self.into_os_string()
    }

    fn of_sent(sent: OsString) -> Self {
        sent.into()
    }
}

impl PathBytes for u32 {
    type Sent = Self;

    fn into_sent(self) -> Self {
        self
    }

    fn of_sent(sent: Self) -> Self {
        sent
    }
}

impl<T: PathBytes> PathBytes for Option<T> {
    type Sent = Option<T::Sent>;

    fn into_sent(self) -> Self::Sent {
        self.map(T::into_sent)
    }

    fn of_sent(sent: Self::Sent) -> Self {
        sent.map(T::of_sent)
    }
}

impl<T: PathBytes> PathBytes for Vec<T> {
    type Sent = Vec<T::Sent>;

    fn into_sent(self) -> Self::Sent {
        self.into_iter().map(T::into_sent).collect()
    }

    fn of_sent(sent: Self::Sent) -> Self {
        sent.into_iter().map(T::of_sent).collect()
    }
}

impl<T: PathBytes + Eq + Hash> PathBytes for HashSet<T> {
    type Sent = Vec<T::Sent>;

    fn into_sent(self) -> Self::Sent {
        self.into_iter().map(T::into_sent).collect()
    }

    fn of_sent(sent: Self::Sent) -> Self {
        sent.into_iter().map(T::of_sent).collect()
    }
}

impl<A: PathBytes, B: PathBytes> PathBytes for (A, B) {
    type Sent = (A::Sent, B::Sent);

    fn into_sent(self) -> Self::Sent {
        (self.0.into_sent(), self.1.into_sent())
    }

    fn of_sent((first, second): Self::Sent) -> Self {
        (A::of_sent(first), B::of_sent(second))
    }
}
