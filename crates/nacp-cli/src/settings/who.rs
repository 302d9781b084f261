//! Whose a setting is. What this module keeps true: a program is named once, however many settings it has.

/// Programs that a setting is for; a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who(u8);

impl Who {
    /// `nacp serve`.
    pub const SERVE: Self = Self(1);
    /// `nacp gateway`.
    pub const GATEWAY: Self = Self(2);
    /// All that call: `call`, `event`, `sub`, `signal`, `introduce`.
    pub const CALLER: Self = Self(4);
    /// All that listen.
    pub const LISTENER: Self = Self(1 | 2);
    /// All.
    pub const EVERYBODY: Self = Self(1 | 2 | 4);

    /// True if one of the others is among these.
    pub fn includes(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}
