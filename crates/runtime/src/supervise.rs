//! Supervised restarts: a *line* of actors that starts, fails and restarts together.
//!
//! ractor tells a parent when a child ends and leaves the rest to the parent. Here the rest is the
//! same everywhere. The children of a line depend on each other's state, so when one fails the
//! others are stopped. After a jittered back-off the whole line is started again from storage, with
//! a generation number that tells late messages of the old line from those of the new one.
//!
//! A line may also *rest*: it ends while nobody needs it and it has nothing left to do, and starts
//! again as soon as somebody needs it. So a process can have many more lines than it could run.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clew_core::Error;
use futures::FutureExt;
use futures::future::BoxFuture;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::backoff::Backoff;
pub use crate::needs::Needed;
use crate::needs::Needs;
use crate::tree::RunningPart;

/// Definition of a line of actors: how to start it and how to restart it.
pub trait Line: Send + Sync + 'static {
    /// Handle by which callers reach the line while it runs.
    type Handle: Clone + Send + Sync + 'static;

    /// Returns the name of the line in logs.
    fn name(&self) -> String;

    /// Starts the actors of the line, linked to `supervisor`. If it fails, the supervisor stops the
    /// actors that it has started.
    ///
    /// # Errors
    /// Returns whatever error keeps the line from running now. The start is tried again after a
    /// back-off.
    fn start(
        &self,
        supervisor: ActorCell,
        generation: u64,
    ) -> impl Future<Output = Result<Self::Handle, Error>> + Send;

    /// Returns whether the running line has nothing left to do by itself. Only then it may rest.
    fn may_rest(&self, _handle: &Self::Handle) -> bool {
        false
    }

    /// Returns the shortest and the longest pause before a restart of the line. The default is
    /// short enough to go unnoticed after a hiccup, and long enough not to spin on a full disk.
    fn pauses(&self) -> (Duration, Duration) {
        (Duration::from_millis(100), Duration::from_secs(10))
    }

    /// Logs that the line of this generation failed and is restarted.
    fn log_failure(&self, generation: u64, error: &Error) {
        let (line, error) = (self.name(), error.chain());
        tracing::error!(line, generation, error, "failed; the line is restarted");
    }
}

/// Starts an actor that `supervisor` watches.
///
/// The future is boxed. The futures of an actor contain those of whatever it awaits and starts.
/// Without a box between two actors, the compiler has to lay out all of them as one type, which it
/// refuses beyond a certain depth.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::Internal`] if the actor's own start fails.
pub fn start_child<A: Actor>(
    actor: A,
    arguments: A::Arguments,
    supervisor: ActorCell,
) -> BoxFuture<'static, Result<ActorRef<A::Msg>, Error>> {
    Box::pin(async move {
        let started = Actor::spawn_linked(None, actor, arguments, supervisor).await;
        let (started, _join) = started
            .map_err(|error| Error::internal("an actor did not start").with_source(error))?;
        Ok(started)
    })
}

/// State of a line.
#[derive(Clone, Debug)]
pub enum LineState<H> {
    /// The line has not started yet.
    Starting,
    /// The line runs.
    Running(H),
    /// The line failed and is restarted. Callers get this error.
    Failed(Arc<Error>),
    /// The line does not run, because nobody needs it.
    Resting,
    /// The line was stopped and is not restarted.
    Stopped,
}

impl<H> LineState<H> {
    /// Returns one word for the tree of running parts.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running(_) => "running",
            Self::Failed(_) => "failed",
            Self::Resting => "resting",
            Self::Stopped => "stopped",
        }
    }
}

/// A line under supervision, as its owner holds it. Dropping it does not stop the line.
#[derive(Clone, Debug)]
pub struct Supervised<H> {
    name: String,
    actor: ActorRef<Message<H>>,
    state: watch::Receiver<LineState<H>>,
    restarts: Arc<AtomicU64>,
    needs: Needs,
}

impl<H: Clone + Send + Sync + 'static> Supervised<H> {
    /// Starts a supervisor that keeps `line` running.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::Internal`] if the actor system refuses to start an actor.
    pub async fn start<L: Line<Handle = H>>(line: L) -> Result<Self, Error> {
        Self::supervise(line, false).await
    }

    /// Starts a supervisor of a line that rests until somebody needs it.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::Internal`] if the actor system refuses to start an actor.
    pub async fn resting<L: Line<Handle = H>>(line: L) -> Result<Self, Error> {
        Self::supervise(line, true).await
    }

    async fn supervise<L: Line<Handle = H>>(line: L, is_resting: bool) -> Result<Self, Error> {
        let state = if is_resting { LineState::Resting } else { LineState::Starting };
        let (published, state) = watch::channel(state);
        let (restarts, needs) = (Arc::new(AtomicU64::new(0)), Needs::new(is_resting));
        let name = line.name();
        let supervisor = Supervisor::<L>(std::marker::PhantomData);
        let arguments = (line, published, Arc::clone(&restarts), needs.clone());
        let (actor, _join) = Actor::spawn(None, supervisor, arguments)
            .await
            .map_err(|error| Error::internal("a supervisor did not start").with_source(error))?;
        Ok(Self { name, actor, state, restarts, needs })
    }

    /// Starts the line if it rests, and keeps it from resting for as long as the returned value
    /// exists.
    pub fn need(&self) -> Needed {
        self.need_for(false)
    }

    /// Does the same without counting as use; see [`Supervised::unneeded_for`].
    pub fn look(&self) -> Needed {
        self.need_for(true)
    }

    fn need_for(&self, is_look: bool) -> Needed {
        let (needed, rested) = self.needs.need(is_look);
        if rested {
            // A supervisor that is gone has published that.
            drop(self.actor.cast(Message::Wake));
        }
        needed
    }

    /// Returns for how long nobody has needed the line: the longest time if nobody ever did, and
    /// `None` while somebody does or the line rests.
    pub fn unneeded_for(&self) -> Option<Duration> {
        self.needs.unneeded_for()
    }

    /// Lets the line rest, unless somebody needs it by then or it has something left to do.
    pub fn rest(&self) {
        // A supervisor that is gone has nothing that could rest.
        drop(self.actor.cast(Message::Rest));
    }

    /// Returns a receiver of the line's state.
    pub fn state(&self) -> watch::Receiver<LineState<H>> {
        self.state.clone()
    }

    /// Returns how often the line was restarted.
    pub fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// Asks the line to stop, without waiting for its end.
    pub fn begin_stop(&self) {
        self.actor.stop(None);
    }

    /// Stops the line and waits for its end. Returns false if it did not end within `patience`.
    pub async fn stop(&self, patience: Duration) -> bool {
        self.begin_stop();
        let mut state = self.state();
        let stopped = state.wait_for(|state| matches!(state, LineState::Stopped));
        // A supervisor that is gone has dropped its sender, which counts as stopped.
        tokio::time::timeout(patience, stopped).await.is_ok()
    }

    /// Returns the line's node for the tree of running parts.
    pub fn node(&self) -> RunningPart {
        let mut node = RunningPart::new(&self.name, "supervisor", self.state.borrow().word());
        node.restarts = self.restarts();
        node
    }
}

/// Actor that keeps one line running.
pub struct Supervisor<L>(std::marker::PhantomData<L>);

/// Messages of [`Supervisor`].
#[derive(Debug)]
pub enum Message<H> {
    /// Start the line, which rests.
    Wake,
    /// Let the line rest, if it may.
    Rest,
    /// Start the line of this generation.
    Start(u64),
    /// Result of starting the line of this generation.
    Started(u64, Result<H, Error>),
}

/// State of [`Supervisor`].
pub struct State<L: Line> {
    line: Arc<L>,
    generation: u64,
    /// Attempt to start that is under way. It may take minutes, and a stop does not wait for it.
    starting: Option<JoinHandle<()>>,
    backoff: Backoff,
    running_since: Option<Instant>,
    /// Whether the line failed and has not run since.
    has_failed: bool,
    published: watch::Sender<LineState<L::Handle>>,
    restarts: Arc<AtomicU64>,
    needs: Needs,
}

/// Time that the children of a failed line get to end.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

impl<L: Line> Actor for Supervisor<L> {
    type Msg = Message<L::Handle>;
    type State = State<L>;
    type Arguments = (L, watch::Sender<LineState<L::Handle>>, Arc<AtomicU64>, Needs);

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        (line, published, restarts, needs): Self::Arguments,
    ) -> Result<State<L>, ActorProcessingErr> {
        if !matches!(*published.borrow(), LineState::Resting) {
            myself.cast(Message::Start(1))?;
        }
        let (least, longest) = line.pauses();
        let backoff = Backoff::new(least, longest);
        let line = Arc::new(line);
        Ok(State {
            line,
            generation: 1,
            starting: None,
            backoff,
            running_since: None,
            has_failed: false,
            published,
            restarts,
            needs,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut State<L>,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Wake => wake(&myself, state),
            Message::Rest => rest(&myself, state).await,
            Message::Start(generation) if generation == state.generation => {
                let line = Arc::clone(&state.line);
                state.starting = Some(tokio::spawn(async move {
                    // Boxed for the reason that `start_child` gives.
                    let start = Box::pin(line.start(myself.get_cell(), generation));
                    let start = AssertUnwindSafe(start);
                    // A panic, for example over broken files, ends the attempt and not the
                    // supervisor.
                    let started = start.catch_unwind().await.unwrap_or_else(|_panic| {
                        Err(Error::internal("starting a part of the service panicked"))
                    });
                    // If the supervisor has ended, nobody is told.
                    drop(myself.cast(Message::Started(generation, started)));
                }));
            }
            Message::Started(generation, Ok(handle)) if generation == state.generation => {
                state.running_since = Some(Instant::now());
                if std::mem::take(&mut state.has_failed) {
                    tracing::info!(line = state.line.name(), generation, "restarted");
                }
                state.published.send_replace(LineState::Running(handle));
            }
            Message::Started(generation, Err(error)) if generation == state.generation => {
                restart(&myself, state, error).await;
            }
            // Messages of earlier generations.
            Message::Start(_) | Message::Started(..) => {}
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        state: &mut State<L>,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            // What a child still says after its line has ended changes nothing.
            SupervisionEvent::ActorFailed(..) if state.is_resting() => {}
            SupervisionEvent::ActorFailed(_, cause) => {
                let error = Error::new(
                    clew_core::ErrorKind::Unavailable,
                    "SHARD_RESTARTING",
                    "a part of the service failed and is restarting; retry",
                )
                .with_source(cause);
                restart(&myself, state, error).await;
            }
            // Children end ordinarily if this supervisor stopped their line.
            SupervisionEvent::ActorTerminated(..)
            | SupervisionEvent::ActorStarted(_)
            | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        myself: ActorRef<Self::Msg>,
        state: &mut State<L>,
    ) -> Result<(), ActorProcessingErr> {
        end_attempt(state).await;
        myself.stop_children_and_wait(None, Some(STOP_PATIENCE)).await;
        state.published.send_replace(LineState::Stopped);
        Ok(())
    }
}

impl<L: Line> State<L> {
    fn is_resting(&self) -> bool {
        matches!(*self.published.borrow(), LineState::Resting)
    }
}

/// Starts a line that rests.
fn wake<L: Line>(myself: &ActorRef<Message<L::Handle>>, state: &mut State<L>) {
    if state.is_resting() {
        state.published.send_replace(LineState::Starting);
        state.generation += 1;
        // To itself while it runs, so it is there.
        drop(myself.cast(Message::Start(state.generation)));
    }
}

/// Ends the line until somebody needs it, unless somebody does or it has something left to do.
async fn rest<L: Line>(myself: &ActorRef<Message<L::Handle>>, state: &mut State<L>) {
    let running = match &*state.published.borrow() {
        LineState::Running(handle) => handle.clone(),
        _ => return,
    };
    // Published before anybody can need the line again, so that nobody is given one that ends.
    let rests = state.needs.rest(|| {
        let rests = state.line.may_rest(&running);
        if rests {
            state.published.send_replace(LineState::Resting);
        }
        rests
    });
    if rests {
        drop(running);
        state.running_since = None;
        myself.stop_children_and_wait(None, Some(STOP_PATIENCE)).await;
    }
}

/// Stops the line and schedules its next start. If two children fail together, this is called
/// twice: the later call only makes the earlier attempt's generation stale.
async fn restart<L: Line>(
    myself: &ActorRef<Message<L::Handle>>,
    state: &mut State<L>,
    error: Error,
) {
    end_attempt(state).await;
    state.has_failed = true;
    state.line.log_failure(state.generation, &error);
    state.published.send_replace(LineState::Failed(Arc::new(error)));
    myself.stop_children_and_wait(None, Some(STOP_PATIENCE)).await;
    // A line that ran for a while starts over with the shortest pause. One that fails right away
    // waits longer each time.
    if state.running_since.take().is_some_and(|since| since.elapsed() > state.line.pauses().1) {
        state.backoff.reset();
    }
    state.generation += 1;
    state.restarts.fetch_add(1, Ordering::Relaxed);
    let generation = state.generation;
    myself.send_after(state.backoff.next_delay(), move || Message::Start(generation));
}

/// Ends the attempt that is under way, so that it starts no more children.
async fn end_attempt<L: Line>(state: &mut State<L>) {
    if let Some(attempt) = state.starting.take() {
        attempt.abort();
        // The task ends at its next await point.
        drop(tokio::time::timeout(STOP_PATIENCE, attempt).await);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// Child that fails, or panics, when told to.
    struct Child;

    impl Actor for Child {
        type Msg = bool;
        type State = ();
        type Arguments = ();

        async fn pre_start(
            &self,
            _myself: ActorRef<bool>,
            (): (),
        ) -> Result<(), ActorProcessingErr> {
            Ok(())
        }

        async fn handle(
            &self,
            _myself: ActorRef<bool>,
            panics: bool,
            (): &mut (),
        ) -> Result<(), ActorProcessingErr> {
            assert!(!panics, "told to panic");
            Err("told to fail".into())
        }
    }

    #[derive(Default)]
    struct Pair {
        starts_that_fail: AtomicU64,
        has_work: AtomicBool,
    }

    impl Line for Pair {
        type Handle = (u64, ActorRef<bool>, ActorRef<bool>);

        fn name(&self) -> String {
            "pair".to_owned()
        }

        async fn start(
            &self,
            supervisor: ActorCell,
            generation: u64,
        ) -> Result<Self::Handle, Error> {
            if self.starts_that_fail.load(Ordering::SeqCst) > 0 {
                self.starts_that_fail.fetch_sub(1, Ordering::SeqCst);
                return Err(Error::internal("not yet"));
            }
            let first = start_child(Child, (), supervisor.clone()).await?;
            let second = start_child(Child, (), supervisor).await?;
            Ok((generation, first, second))
        }

        fn may_rest(&self, _handle: &Self::Handle) -> bool {
            !self.has_work.load(Ordering::SeqCst)
        }
    }

    type Watched = watch::Receiver<LineState<<Pair as Line>::Handle>>;

    async fn running(state: &mut Watched, after: u64) -> <Pair as Line>::Handle {
        let newer = |state: &LineState<<Pair as Line>::Handle>| matches!(state, LineState::Running((generation, ..)) if *generation > after);
        let waited = tokio::time::timeout(Duration::from_secs(30), state.wait_for(newer)).await;
        let found = waited.expect("the line comes back").expect("the supervisor lives").clone();
        match found {
            LineState::Running(handle) => handle,
            other => unreachable!("waited for a running line, got {other:?}"),
        }
    }

    #[tokio::test]
    async fn when_one_fails_all_are_made_anew() {
        let supervised = Supervised::start(Pair::default()).await.unwrap();
        let mut state = supervised.state();
        let mut generation = 0;
        for panics in [false, true] {
            let (now, first, second) = running(&mut state, generation).await;
            generation = now;
            first.cast(panics).unwrap();
            let (newer, ..) = running(&mut state, generation).await;
            assert!(newer > generation);
            second.wait(Some(Duration::from_secs(5))).await.expect("the sibling was stopped");
        }
        assert!(supervised.stop(Duration::from_secs(10)).await, "it stops");
        assert!(matches!(&*state.borrow(), LineState::Stopped));
    }

    /// Line that never starts, or panics when it is started.
    struct Hopeless {
        panics: bool,
    }

    impl Line for Hopeless {
        type Handle = ();

        fn name(&self) -> String {
            "hopeless".to_owned()
        }

        async fn start(&self, _supervisor: ActorCell, _generation: u64) -> Result<(), Error> {
            assert!(!self.panics, "told to panic");
            std::future::pending().await
        }
    }

    #[tokio::test]
    async fn a_start_that_hangs_does_not_hold_up_a_stop() {
        let supervised = Supervised::start(Hopeless { panics: false }).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(supervised.stop(Duration::from_secs(5)).await);
        assert_eq!(supervised.node().state, "stopped");
    }

    #[tokio::test]
    async fn a_start_that_panics_is_a_failure_that_is_told() {
        let supervised = Supervised::start(Hopeless { panics: true }).await.unwrap();
        let mut state = supervised.state();
        let failed = |state: &LineState<()>| matches!(state, LineState::Failed(_));
        let told = tokio::time::timeout(Duration::from_secs(5), state.wait_for(failed));
        assert!(told.await.is_ok());
        assert!(supervised.stop(Duration::from_secs(5)).await);
    }

    async fn becomes(state: &mut Watched, word: &str) {
        let waited = state.wait_for(|state| state.word() == word);
        let waited = tokio::time::timeout(Duration::from_secs(30), waited).await;
        assert!(waited.is_ok_and(|state| state.is_ok()), "expected it {word}");
    }

    #[tokio::test]
    async fn a_line_rests_while_nobody_needs_it_and_nothing_is_left_to_do() {
        let supervised = Supervised::resting(Pair::default()).await.unwrap();
        let mut state = supervised.state();
        assert_eq!(supervised.node().state, "resting");
        supervised.rest();
        let needed = supervised.need();
        let (first, child, _) = running(&mut state, 0).await;
        supervised.rest();
        drop(needed);
        assert!(supervised.unneeded_for().is_some());
        supervised.rest();
        becomes(&mut state, "resting").await;
        child.wait(Some(Duration::from_secs(5))).await.expect("it ended with its line");
        assert_eq!(supervised.unneeded_for(), None);
        let _needed = supervised.look();
        let (second, ..) = running(&mut state, first).await;
        assert!(second > first);
        assert_eq!(supervised.restarts(), 0, "it did not fail");
        assert!(supervised.stop(Duration::from_secs(10)).await);
    }

    #[tokio::test]
    async fn a_line_with_something_left_to_do_does_not_rest() {
        let pair = Pair { has_work: AtomicBool::new(true), ..Pair::default() };
        let supervised = Supervised::start(pair).await.unwrap();
        let mut state = supervised.state();
        let (_, child, _) = running(&mut state, 0).await;
        supervised.rest();
        // The supervisor takes one message after another. It has refused by the time at which it
        // notices that the child failed.
        child.cast(false).unwrap();
        becomes(&mut state, "failed").await;
        assert_eq!(supervised.restarts(), 1);
        assert!(supervised.stop(Duration::from_secs(10)).await);
    }

    #[tokio::test]
    async fn a_line_that_rests_can_be_stopped() {
        let supervised = Supervised::resting(Pair::default()).await.unwrap();
        assert!(supervised.stop(Duration::from_secs(10)).await);
        let _needed = supervised.need();
        assert_eq!(supervised.node().state, "stopped");
    }

    #[tokio::test]
    async fn a_line_that_cannot_start_is_tried_again() {
        let pair = Pair { starts_that_fail: AtomicU64::new(2), ..Pair::default() };
        let supervised = Supervised::start(pair).await.unwrap();
        let (generation, ..) = running(&mut supervised.state(), 0).await;
        assert_eq!(generation, 3);
        assert_eq!(supervised.node().to_string(), "pair (supervisor) running, 2 restarts\n");
        assert!(supervised.stop(Duration::from_secs(10)).await);
        assert_eq!(supervised.node().state, "stopped");
    }
}
