//! The content of each walk, and the rule that is broken in it.

use api::{command::PowerAction, target::TargetKind};

/// Which rule is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// None: the shipped code.
    Ships,
    /// The server is not read between intent and request.
    Unseen,
    /// The release reads the commands before it is recorded, and not after.
    Early,
    /// The request follows the annotation, before the status is written.
    NoStatus,
    /// A request that may have been sent counts as unsent.
    Again,
}

/// The content of a scene.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    pub(super) kind: TargetKind,
    pub(super) action: PowerAction,
    /// The server is released.
    pub(super) ends: bool,
    /// The object gets another server.
    pub(super) rebinds: bool,
    /// A user sends a command, and forges or removes an annotation.
    pub(super) has_user_actions: bool,
    pub(super) crashes: u8,
    pub(super) variant: Variant,
}

pub(super) const REBOOT: Scene = Scene {
    kind: TargetKind::BareMetalServer,
    action: PowerAction::Reboot,
    ends: false,
    rebinds: false,
    has_user_actions: false,
    crashes: 1,
    variant: Variant::Ships,
};
