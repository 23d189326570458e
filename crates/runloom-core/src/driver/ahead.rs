//! The first call of a new run, sent while the run is being written down.
//!
//! The provider's answer takes longer than the store's. Nothing of it is recorded or shown before the run is durable; when the
//! run cannot be created the call is dropped, which closes its connection. What comes of the answer meanwhile is read, so that a quick
//! provider does not wake a thread with every word for nothing.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Instant;

use futures_util::{FutureExt, StreamExt, stream};
use runloom_protocol::event::{Event, Started};
use runloom_protocol::tools::ToolRef;

use super::turn::{Item, request_of};
use crate::planner::Planned;
use crate::ports::model::{ModelError, ModelEvent, ModelStream};
use crate::ports::tools::{ServerTool, ToolContext, ToolHost};
use crate::run::{self, CallPlan, Note, Record, RunState, Step};

type Panic = Box<dyn Any + Send>;
type Opened = Result<ModelStream, ModelError>;
type Opening = Pin<Box<dyn Future<Output = Opened> + Send>>;

/// Events that are read before the run is durable, and the bytes of their text. A call or the end is the last.
const READ_AT_MOST: usize = 256;
const BYTES_AT_MOST: usize = 64 * 1024;

/// A model call under way for a run that is not durable yet.
pub(crate) struct Ahead {
    plan: CallPlan,
    began: Instant,
    /// The server's tools that the call offers, until the run has taken note of them.
    tools: Option<Vec<ServerTool>>,
    opening: Opening,
    opened: Option<Opened>,
    read: Read,
    /// What the call ended with. It is the driver's: that knows what becomes of a run whose model panics, and while this happens the run
    /// may not even be there.
    panic: Option<Panic>,
}

/// How the answer began.
#[derive(Default)]
struct Read {
    items: Vec<Item>,
    bytes: usize,
    /// What comes after a call or the end is left to the driver.
    enough: bool,
    /// There is no more.
    ended: bool,
}

impl Ahead {
    /// Sends the call that a run with this plan begins with. `None` when it begins with something else: when tools must be asked for
    /// over a network, or money must be set aside, which only a durable run can do.
    pub(crate) fn of(
        planned: &Planned,
        host: &dyn ToolHost,
        context: &ToolContext,
    ) -> Option<Self> {
        let mut state = RunState::new(Arc::clone(&planned.plan));
        state.apply(Record::Event(Event::Started(Started {})));
        let mut tools = None;
        if let Step::ResolveTools = run::next(&state) {
            let found = at_hand(host, context)?;
            state.apply(Record::Note(Note::Toolset {
                tools: found.clone(),
            }));
            tools = Some(found);
        }
        let Step::CallModel(call) = run::next(&state) else {
            return None;
        };
        if call.bid.is_some() {
            return None;
        }
        let (model, request) = (Arc::clone(&planned.model), request_of(&mut state, call));
        let mut ahead = Self {
            plan: call,
            began: Instant::now(),
            tools,
            opening: Box::pin(async move { model.call(request).await }),
            opened: None,
            read: Read::default(),
            panic: None,
        };
        // On a connection that is there it goes out here: all that is left to do is done while the provider thinks.
        if let Some(Err(panic)) = ahead.go_on().now_or_never() {
            ahead.panic = Some(panic);
        }
        Some(ahead)
    }

    /// When it was sent.
    pub(super) fn began(&self) -> Instant {
        self.began
    }

    /// The tools that the call offers. Given once.
    pub(super) fn take_tools(&mut self) -> Option<Vec<ServerTool>> {
        self.tools.take()
    }

    /// Lets the call go on beside other work, and returns with that.
    pub(crate) async fn beside<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                step = self.go_on(), if self.panic.is_none() => self.panic = step.err(),
            }
        }
    }

    /// One step of the call.
    async fn go_on(&mut self) -> Result<(), Panic> {
        // What has panicked is not touched again.
        match &mut self.opened {
            None => {
                let opening = AssertUnwindSafe(&mut self.opening).catch_unwind();
                self.opened = Some(opening.await?);
            }
            Some(Ok(answer)) if self.read.wants_more() => {
                let next = AssertUnwindSafe(answer.next()).catch_unwind();
                self.read.take(next.await?);
            }
            Some(_) => std::future::pending().await,
        }
        Ok(())
    }

    /// The call, when it is the one that is planned.
    pub(super) fn take(self, plan: CallPlan) -> Option<Opening> {
        if self.plan != plan {
            return None;
        }
        if let Some(panic) = self.panic {
            return Some(Box::pin(async { resume_unwind(panic) }));
        }
        Some(match self.opened {
            Some(opened) => Box::pin(std::future::ready(opened.map(|rest| self.read.and(rest)))),
            None => self.opening,
        })
    }
}

impl Read {
    fn wants_more(&self) -> bool {
        !self.enough && self.items.len() < READ_AT_MOST && self.bytes < BYTES_AT_MOST
    }

    fn take(&mut self, item: Option<Item>) {
        match &item {
            Some(Ok(ModelEvent::Text(text) | ModelEvent::Thinking(text))) => {
                self.bytes += text.len();
            }
            Some(Ok(ModelEvent::Usage(_))) => {}
            Some(Ok(ModelEvent::Call(_) | ModelEvent::Done(_)) | Err(_)) | None => {
                self.enough = true;
            }
        }
        self.ended = item.is_none();
        self.items.extend(item);
    }

    /// The whole answer, of which this was the beginning.
    fn and(self, rest: ModelStream) -> ModelStream {
        if self.ended {
            // It is not asked again.
            return Box::pin(stream::iter(self.items));
        }
        if self.items.is_empty() {
            return rest;
        }
        Box::pin(stream::iter(self.items).chain(rest))
    }
}

/// The server's tools of a run, when they are known without waiting: those of the workspace usually are, because they were looked
/// up when the run was checked. Other kinds would begin to connect.
fn at_hand(host: &dyn ToolHost, context: &ToolContext) -> Option<Vec<ServerTool>> {
    let of_workspace =
        |tool: &ToolRef| matches!(tool, ToolRef::Mantyx(_)) || !tool.is_server_resolved();
    if !context.refs.iter().all(of_workspace) {
        return None;
    }
    host.resolve(context, &context.refs).now_or_never()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::ports::model::Done;

    const PLAN: CallPlan = CallPlan {
        turn: 1,
        tools_enabled: true,
        force_output: false,
        max_output_tokens: None,
        bid: None,
    };

    /// A call whose answer is endless; how much of it was read is counted.
    fn endless(word: &'static str, read: &Arc<AtomicUsize>) -> Ahead {
        let read = Arc::clone(read);
        let words = (0..).map(move |number: usize| {
            read.store(number + 1, Ordering::SeqCst);
            Ok(ModelEvent::Text(format!("{word}{number}")))
        });
        let answer: ModelStream = Box::pin(stream::iter(words));
        Ahead {
            plan: PLAN,
            began: Instant::now(),
            tools: None,
            opening: Box::pin(async { Ok(answer) }),
            opened: None,
            read: Read::default(),
            panic: None,
        }
    }

    async fn texts(ahead: Ahead, most: usize) -> Vec<String> {
        let whole = ahead.take(PLAN).expect("the same plan").await.unwrap();
        let text = |item| match item {
            Ok(ModelEvent::Text(text)) => text,
            other => panic!("{other:?}"),
        };
        whole.take(most).map(text).collect().await
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_meanwhile_is_read_up_to_a_bound_and_nothing_is_lost() {
        let read = Arc::<AtomicUsize>::default();
        let mut ahead = endless("", &read);
        ahead
            .beside(tokio::time::sleep(Duration::from_secs(1)))
            .await;
        assert_eq!(read.load(Ordering::SeqCst), READ_AT_MOST);
        let all: Vec<String> = (0..READ_AT_MOST + 9).map(|word| word.to_string()).collect();
        assert_eq!(texts(ahead, all.len()).await, all);
    }

    #[tokio::test(start_paused = true)]
    async fn large_words_are_bounded_by_their_bytes() {
        let read = Arc::<AtomicUsize>::default();
        let large: &'static str = "x".repeat(BYTES_AT_MOST / 2).leak();
        let mut ahead = endless(large, &read);
        ahead
            .beside(tokio::time::sleep(Duration::from_secs(1)))
            .await;
        assert_eq!(read.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn after_the_end_nothing_is_read() {
        let words = [
            Ok(ModelEvent::Text("all".into())),
            Ok(ModelEvent::Done(Done::default())),
        ];
        let mut ahead = endless("", &Arc::default());
        let answer: ModelStream = Box::pin(stream::iter(words).chain(stream::once(async {
            unreachable!("it was asked again");
        })));
        ahead.opening = Box::pin(async { Ok(answer) });
        ahead
            .beside(tokio::time::sleep(Duration::from_secs(1)))
            .await;
        assert_eq!(texts(ahead, 1).await, ["all"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_of_the_model_is_kept_for_the_driver() {
        let calls: [fn() -> Opening; 2] = [
            || Box::pin(async { panic!("no call") }),
            || {
                let answer: ModelStream = Box::pin(stream::once(async { panic!("no word") }));
                Box::pin(async { Ok(answer) })
            },
        ];
        for call in calls {
            let mut ahead = endless("", &Arc::default());
            ahead.opening = call();
            ahead
                .beside(tokio::time::sleep(Duration::from_secs(1)))
                .await;
            let opening = ahead.take(PLAN).expect("the same plan");
            assert!(AssertUnwindSafe(opening).catch_unwind().await.is_err());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_over_early_is_whole() {
        let read = Arc::<AtomicUsize>::default();
        let mut ahead = endless("", &read);
        // Panics when it is asked again after its end.
        let answer: ModelStream = Box::pin(stream::unfold(true, |first| async move {
            first.then(|| (Ok(ModelEvent::Text("all".into())), false))
        }));
        ahead.opening = Box::pin(async { Ok(answer) });
        ahead
            .beside(tokio::time::sleep(Duration::from_secs(1)))
            .await;
        assert!(ahead.read.ended);
        assert_eq!(texts(ahead, 9).await, ["all"]);
    }
}
