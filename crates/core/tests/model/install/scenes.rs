//! The content of each walk, and the rule that is broken in it.

/// Which rule is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// None: the shipped code.
    Ships,
    /// The request is sent before its intent is written.
    IntentAfterSend,
    /// A request that may have been sent counts as unsent.
    AgainAfterLost,
    /// The commands listed right before are not recorded.
    NoListBefore,
    /// An unexplained re-installation does not prevent another one.
    Unaccounted,
    /// The object is not read between intent and request.
    NoLiveRead,
    /// The commands are not read between intent and request.
    NoAsk,
    /// Release and retention do not wait for a request in flight.
    RetainAtOnce,
}

/// The content of a scene.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    pub(super) name: &'static str,
    /// The revisions that the spec is set to, in order. It starts at 2, and 1 was performed.
    pub(super) edits: &'static [u8],
    /// Maximum number of attempts.
    pub(super) attempts: u8,
    pub(super) ticks: u8,
    pub(super) crashes: u8,
    /// A user re-installs the server in the portal.
    pub(super) user_installs: u8,
    /// A user removes the status.
    pub(super) strips: u8,
    /// The object is restored to its initial state.
    pub(super) restores: u8,
    /// The object is deleted; `retains` says whether its server stays.
    pub(super) ends: bool,
    pub(super) retains: bool,
    /// Deletion protection is switched on.
    pub(super) protects: bool,
    /// A power command is requested.
    pub(super) has_power: bool,
    /// Commands may fail.
    pub(super) fails: bool,
    /// A command may never end.
    pub(super) never_ends: bool,
    /// Commands may end in the tick of their creation.
    pub(super) is_quick: bool,
    /// The provider refuses, also with 409 and 403.
    pub(super) refuses: bool,
    /// A process may see an old version of the object.
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

/// Crashes and lost answers.
pub(super) const LOSSES: Scene = Scene {
    name: "losses",
    crashes: 1,
    ticks: 2,
    ..LEAST
};

/// Refusals and failing commands.
pub(super) const REFUSED: Scene = Scene {
    name: "refused",
    fails: true,
    refuses: true,
    ..LEAST
};

/// The processes see an old version of the object.
pub(super) const BEHIND: Scene = Scene {
    name: "behind",
    is_behind: true,
    edits: &[3],
    ..LEAST
};

/// A user re-installs in the portal, which may end at once.
pub(super) const USER_INSTALLS: Scene = Scene {
    name: "person",
    user_installs: 1,
    is_quick: true,
    ..LEAST
};

/// The revision is raised once more, and a command may never end.
pub(super) const RAISED: Scene = Scene {
    name: "raised",
    edits: &[3],
    ticks: 2,
    never_ends: true,
    ..LEAST
};

/// The revision is set back in flight and raised again, and a user removes the status.
pub(super) const SET_BACK: Scene = Scene {
    name: "set back",
    edits: &[1, 2],
    strips: 1,
    ..LEAST
};

/// The initial object is restored.
pub(super) const RESTORED: Scene = Scene {
    name: "restored",
    restores: 1,
    crashes: 1,
    ..LEAST
};

/// The object is deleted, and its server released.
pub(super) const RELEASED: Scene = Scene {
    name: "released",
    ends: true,
    crashes: 1,
    ..LEAST
};

/// The object is deleted and its server retained, so that another owner may adopt it at once.
pub(super) const RETAINED: Scene = Scene {
    name: "retained",
    ends: true,
    retains: true,
    crashes: 1,
    ..LEAST
};

/// A user re-installs the server, and the object is deleted.
pub(super) const USER_INSTALLS_AND_DELETES: Scene = Scene {
    name: "person ends",
    user_installs: 1,
    ends: true,
    retains: true,
    ticks: 0,
    crashes: 1,
    ..LEAST
};

/// Deletion protection is switched on in flight.
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
