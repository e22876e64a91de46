//! One fault at one place.

use std::fmt;
use std::time::Duration;

use super::{
    call_trace::{Act, Place, Release, Side, Watch},
    proxied_world::{AT_ITS_END, ProxiedWorld},
};

/// Without faults a place is reached within this time.
const REACHED_WITHIN: Duration = Duration::from_secs(25);

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The operator is killed before the request is on its way; it never arrives.
    KillBefore,
    /// The operator is killed after the effect, before it has the answer.
    KillAfter,
    /// The operator is killed, and the request arrives while the next one waits for
    /// the answer to its first look, which does not show it.
    KillThenLate,
    /// The request is lost, the operator lives.
    LoseRequest,
    /// The answer is lost, the operator lives.
    LoseAnswer,
}

impl Fault {
    pub(crate) const ALL: [Self; 5] = [
        Self::KillBefore,
        Self::KillAfter,
        Self::KillThenLate,
        Self::LoseRequest,
        Self::LoseAnswer,
    ];

    /// How the trap is to act.
    pub(crate) fn act(self) -> Act {
        match self {
            Self::KillBefore | Self::KillThenLate => Act::HoldRequest,
            Self::KillAfter => Act::HoldAnswer,
            Self::LoseRequest => Act::DropRequest,
            Self::LoseAnswer => Act::DropAnswer,
        }
    }
}

/// A fault at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FaultPoint {
    /// The phase of the life to which the place belongs.
    pub(crate) phase: &'static str,
    pub(crate) place: Place,
    pub(crate) fault: Fault,
}

impl fmt::Display for FaultPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?} at {}", self.phase, self.fault, self.place)
    }
}

/// Waits until the trap springs, then does what the fault asks for. Returns
/// whether the place was reached.
pub(crate) async fn inject(
    proxied: &mut ProxiedWorld,
    point: Option<&FaultPoint>,
    watch: Option<Watch>,
) -> bool {
    let (Some(point), Some(mut watch)) = (point, watch) else {
        return true;
    };
    let Some(caught) = watch.caught(REACHED_WITHIN).await else {
        proxied.trace.disarm();
        return false;
    };
    match point.fault {
        Fault::LoseRequest | Fault::LoseAnswer => {}
        Fault::KillBefore | Fault::KillAfter => {
            proxied.world.operator().kill9();
            caught.release(Release::Discard);
            proxied.world.operator().restart();
        }
        Fault::KillThenLate => {
            proxied.world.operator().kill9();
            let mut look = proxied.trace.hold_next_look(collection(&point.place));
            proxied.world.operator().restart();
            let look = look.caught(AT_ITS_END).await;
            let look = look.expect("the next operator looks at what the request is about");
            caught.arrive().await;
            look.release(Release::Forward);
        }
    }
    true
}

/// Beginning of the path at the hosting API of all that an effect is about.
fn collection(place: &Place) -> &'static str {
    let is_of = |word: &str| place.side == Side::Hosting && place.sort.contains(word);
    match () {
        () if is_of(" sshKey") => "/v3/sshKey",
        () if is_of(" whitelist") => "/v3/account/apiKey",
        () if is_of(" host/") => "/v3/host",
        () if is_of(" tags") => "/v3/flexMetal/tags",
        () => "/v3/flexMetal/servers",
    }
}
