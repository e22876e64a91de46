//! The trace of effects: the calls that the operator makes about one object, in
//! order of arrival at the two proxies, and a trap that can be set for one of them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::{noise::Noise, turned_clock::Clock};

/// Which server a request was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    /// The hosting API.
    Hosting,
    /// The Kubernetes API.
    Cluster,
}

/// A place in the trace: the nth request of its sort.
///
/// Counted by sort and not overall, so that one more status write on a slow
/// machine does not shift all later places.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) side: Side,
    /// Method and path, with what varies replaced: `DELETE servers/{uuid}`.
    pub(crate) sort: String,
    /// Counted from 1.
    pub(crate) nth: u32,
}

impl Place {
    /// Whether it only reads.
    pub(crate) fn is_look(&self) -> bool {
        self.sort.starts_with("GET ")
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::Hosting => "hosting",
            Side::Cluster => "cluster",
        };
        write!(f, "{side} {} #{}", self.sort, self.nth)
    }
}

/// What happens to the request in the trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Held before it is forwarded.
    HoldRequest,
    /// Forwarded; the answer is held.
    HoldAnswer,
    /// Never forwarded; the connection is closed.
    DropRequest,
    /// Forwarded; the connection is closed instead of an answer.
    DropAnswer,
}

/// What becomes of something held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// It goes on its way.
    Forward,
    /// It never arrives; the connection is closed.
    Discard,
}

/// A request that went into the trap: now, or held until it is released.
pub(crate) struct Caught {
    release: oneshot::Sender<Release>,
    underway: oneshot::Receiver<Infallible>,
}

impl Caught {
    /// Lets it go.
    pub(crate) fn release(self, release: Release) {
        // The proxy's task may have ended with the operator's connection.
        let _ = self.release.send(release);
    }

    /// Lets a held request go on its way, and waits until it has been answered.
    pub(crate) async fn arrive(self) {
        let _ = self.release.send(Release::Forward);
        // Nothing is ever sent: the proxy drops its end with the answer.
        let _ = self.underway.await;
    }
}

/// Held by the proxy as long as a caught request has no answer.
pub(crate) struct Underway(
    #[expect(dead_code, reason = "only its end is seen")] oneshot::Sender<Infallible>,
);

/// The proxy's side of the trap: what to do with one request.
pub(crate) struct Trapped {
    pub(crate) act: Act,
    tell: mpsc::UnboundedSender<Caught>,
}

impl Trapped {
    /// Tells the test that the request is here and, if it is to be held, waits
    /// for the test's answer. If the test has ended, the request is discarded.
    pub(crate) async fn spring(self) -> (Release, Underway) {
        let (release, released) = oneshot::channel();
        let (ends, underway) = oneshot::channel();
        // The test may have ended.
        let _ = self.tell.send(Caught { release, underway });
        let release = match self.act {
            Act::HoldRequest | Act::HoldAnswer => released.await.unwrap_or(Release::Discard),
            Act::DropRequest | Act::DropAnswer => Release::Discard,
        };
        (release, Underway(ends))
    }
}

#[derive(Default)]
struct Log {
    subject: String,
    seen: Vec<Place>,
    counts: BTreeMap<(Side, String), u32>,
    trap: Option<(Place, Trapped)>,
    /// A trap for the next look at a collection of the hosting API.
    look_trap: Option<(String, Trapped)>,
}

/// The trace of one world: both its proxies write into it.
pub(crate) struct CallTrace {
    log: Mutex<Log>,
    /// What befalls calls by chance; nothing at first.
    pub(crate) noise: Noise,
    /// What the API server's clock shows.
    pub(crate) clock: Clock,
}

/// Tells when the trap has caught something.
pub(crate) struct Watch(mpsc::UnboundedReceiver<Caught>);

impl Watch {
    /// Waits for the catch; `None` when there is none `within` the time.
    pub(crate) async fn caught(&mut self, within: Duration) -> Option<Caught> {
        let caught = tokio::time::timeout(within, self.0.recv()).await;
        caught.ok().flatten()
    }

    /// The catch, if there is one already.
    pub(crate) fn try_caught(&mut self) -> Option<Caught> {
        self.0.try_recv().ok()
    }
}

impl CallTrace {
    pub(crate) fn new() -> Self {
        Self {
            log: Mutex::default(),
            noise: Noise::default(),
            clock: Clock::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a new trace about the object `subject`, without a trap.
    pub(crate) fn start(&self, subject: &str) {
        *self.lock() = Log {
            subject: subject.to_owned(),
            ..Log::default()
        };
    }

    /// Like [`CallTrace::start`], with a trap at `place`.
    pub(crate) fn start_with_trap(&self, subject: &str, place: &Place, act: Act) -> Watch {
        let (tell, caught) = mpsc::unbounded_channel();
        *self.lock() = Log {
            subject: subject.to_owned(),
            trap: Some((place.clone(), Trapped { act, tell })),
            ..Log::default()
        };
        Watch(caught)
    }

    /// Sets a trap for the next GET at the hosting API whose path begins with
    /// `collection`: its answer is held.
    pub(crate) fn hold_next_look(&self, collection: &str) -> Watch {
        let (tell, caught) = mpsc::unbounded_channel();
        let act = Act::HoldAnswer;
        self.lock().look_trap = Some((collection.to_owned(), Trapped { act, tell }));
        Watch(caught)
    }

    /// The trap for a look at `path` of the hosting API, if it stands there.
    pub(crate) fn look(&self, path: &str) -> Option<Trapped> {
        let mut log = self.lock();
        let stands_here = |(collection, _): &mut (String, Trapped)| path.starts_with(&**collection);
        log.look_trap
            .take_if(stands_here)
            .map(|(_, trapped)| trapped)
    }

    /// Takes the trap away.
    pub(crate) fn disarm(&self) {
        self.lock().trap = None;
    }

    /// All places so far.
    pub(crate) fn seen(&self) -> Vec<Place> {
        self.lock().seen.clone()
    }

    /// A request has arrived. `sorts` is asked with the subject's name and says
    /// what sorts of request about it this is, if any. Returns the trap if it
    /// stands at one of these places.
    pub(crate) fn arrive(
        &self,
        side: Side,
        sorts: impl FnOnce(&str) -> Vec<String>,
    ) -> Option<Trapped> {
        let mut log = self.lock();
        let sorts = sorts(&log.subject);
        let mut trapped = None;
        for sort in sorts {
            let count = log.counts.entry((side, sort.clone())).or_default();
            *count += 1;
            let nth = *count;
            let place = Place { side, sort, nth };
            log.seen.push(place.clone());
            trapped = trapped.or(log.trap.take_if(|(trap, _)| *trap == place));
        }
        trapped.map(|(_, trapped)| trapped)
    }
}
