//! What is in a walk, and which rule is broken in it.

/// Which rule is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// None: what ships.
    Ships,
    /// The request goes out before its intent is written.
    IntentAfterSend,
    /// What may have been sent counts as not sent.
    AgainAfterLost,
    /// What is listed right before is not noted.
    NoListBefore,
    /// A re-installation that nobody can account for is no reason against another.
    Unaccounted,
    /// The object is not looked at between the intent and the request.
    NoLiveRead,
    /// The commands are not.
    NoAsk,
    /// A release and a retention do not wait for a request that may be on its way.
    RetainAtOnce,
}

/// What a scene has in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    pub(super) name: &'static str,
    /// What the revision is set to, one after the other; at first it is 2, and 1 was performed.
    pub(super) edits: &'static [u8],
    /// Attempts that are begun in the walk.
    pub(super) attempts: u8,
    pub(super) ticks: u8,
    pub(super) crashes: u8,
    /// Somebody installs the machine at the portal.
    pub(super) user_installs: u8,
    /// Somebody takes the status off.
    pub(super) strips: u8,
    /// The object goes back to what it was at first.
    pub(super) restores: u8,
    /// The object is deleted; whether its machine stays.
    pub(super) ends: bool,
    pub(super) retains: bool,
    /// Deletion protection is switched on.
    pub(super) protects: bool,
    /// A power command is wished for.
    pub(super) has_power: bool,
    /// Commands may fail.
    pub(super) fails: bool,
    /// Commands end by themselves; else one may never.
    pub(super) never_ends: bool,
    /// Commands may end at once.
    pub(super) is_quick: bool,
    /// The provider refuses, and says 409 and 403.
    pub(super) refuses: bool,
    /// What a process sees of the object may be behind.
    pub(super) is_behind: bool,
    pub(super) variant: Variant,
}

pub(super) const LEAST: Scene = Scene {
    name: "least",
    edits: &[],
    attempts: 2,
    ticks: 1,
    crashes: 0,
    user_installs: 0,
    strips: 0,
    restores: 0,
    ends: false,
    retains: false,
    protects: false,
    has_power: false,
    fails: false,
    never_ends: false,
    is_quick: false,
    refuses: false,
    is_behind: false,
    variant: Variant::Ships,
};

/// Crashes, and answers that are lost.
pub(super) const LOSSES: Scene = Scene {
    name: "losses",
    crashes: 1,
    ticks: 2,
    ..LEAST
};

/// Refusals, and commands that fail.
pub(super) const REFUSED: Scene = Scene {
    name: "refused",
    fails: true,
    refuses: true,
    ..LEAST
};

/// What the processes see of the object is behind.
pub(super) const BEHIND: Scene = Scene {
    name: "behind",
    is_behind: true,
    edits: &[3],
    ..LEAST
};

/// A person does the same at the portal, and that may be over at once.
pub(super) const USER_INSTALLS: Scene = Scene {
    name: "person",
    user_installs: 1,
    is_quick: true,
    ..LEAST
};

/// The number is raised once more, and a command may never end.
pub(super) const RAISED: Scene = Scene {
    name: "raised",
    edits: &[3],
    ticks: 2,
    never_ends: true,
    ..LEAST
};

/// It is set back in flight, and raised again; and somebody takes the status off.
pub(super) const SET_BACK: Scene = Scene {
    name: "set back",
    edits: &[1, 2],
    strips: 1,
    ..LEAST
};

/// An older world is restored.
pub(super) const RESTORED: Scene = Scene {
    name: "restored",
    restores: 1,
    crashes: 1,
    ..LEAST
};

/// The object is deleted, and its machine released.
pub(super) const RELEASED: Scene = Scene {
    name: "released",
    ends: true,
    crashes: 1,
    ..LEAST
};

/// The object is deleted, and its machine stays: somebody else may have it at once.
pub(super) const RETAINED: Scene = Scene {
    name: "retained",
    ends: true,
    retains: true,
    crashes: 1,
    ..LEAST
};

/// A person installs the machine, and the object is deleted.
pub(super) const USER_INSTALLS_AND_DELETES: Scene = Scene {
    name: "person ends",
    user_installs: 1,
    ends: true,
    retains: true,
    ticks: 0,
    crashes: 1,
    ..LEAST
};

/// Deletion protection comes in flight.
pub(super) const PROTECTED: Scene = Scene {
    name: "protected",
    protects: true,
    crashes: 1,
    ..LEAST
};

/// A power command at the same time.
pub(super) const POWER: Scene = Scene {
    name: "power",
    has_power: true,
    crashes: 1,
    ..LEAST
};

pub(super) const ALL: [Scene; 12] = [
    LOSSES,
    REFUSED,
    BEHIND,
    USER_INSTALLS,
    RAISED,
    SET_BACK,
    RESTORED,
    RELEASED,
    RETAINED,
    USER_INSTALLS_AND_DELETES,
    PROTECTED,
    POWER,
];
