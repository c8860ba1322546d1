//! Enums whose values have words.

/// Defines an enum with a word per value: `ALL`, `as_str`, `from_word` and `Display` then miss none.
#[macro_export]
macro_rules! word_enum {
    (
        $(#[$outer:meta])*
        $vis:vis enum $name:ident { $($(#[$inner:meta])* $value:ident = $word:literal,)+ }
    ) => {
        $(#[$outer])*
        $vis enum $name { $($(#[$inner])* $value,)+ }

        impl $name {
            /// Every value, in the order of the definition.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$value),+];

            /// Returns the word of the value.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$value => $word),+ }
            }

            /// Returns the value of a word.
            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.as_str() == word)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
