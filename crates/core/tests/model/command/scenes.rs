//! What is in a walk, and which rule is broken in it.

use api::{command::PowerAction, target::TargetKind};

/// Which rule is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// None: what ships.
    Ships,
    /// The server is not looked at between the intent and the request.
    Unseen,
    /// The release asks for the commands before its note, and not after.
    Early,
    /// The request follows the note in metadata; the status is not written before it.
    NoStatus,
    /// What may have been sent counts as not sent.
    Again,
}

/// What a scene has in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    pub(super) kind: TargetKind,
    pub(super) action: PowerAction,
    /// The server is released.
    pub(super) ends: bool,
    /// The server gets another machine.
    pub(super) rebinds: bool,
    /// A person sends a command, and somebody makes a note up or strips it.
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
