//! The engine: QuickJS with its own limits on memory, stack and time, inside the kernel's.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rquickjs::context::EvalOptions;
use rquickjs::promise::PromiseState;
use rquickjs::{Context, Ctx, Error, Function, Module, Object, Promise, Runtime, Value};

use super::super::wire::{Done, Ended, Fetch, Fetched, Job};
use crate::content::cut;

const PRELUDE: &str = include_str!("prelude.js");

/// The name of the source in stacks.
const FILE: &str = "tool.js";

/// Stack of the code. The process has more, so that the engine's own check is the first.
const STACK_BYTES: usize = 512 * 1024;

/// What is kept of the console.
pub(super) const CONSOLE_BYTES: usize = 8 * 1024;

/// Bytes of an exception's message.
const MESSAGE_BYTES: usize = 4 * 1024;

/// Who makes the code's requests.
pub(super) trait Peer {
    fn ask(&mut self, fetch: Fetch) -> io::Result<()>;
    fn answer(&mut self) -> io::Result<Fetched>;
}

/// Why there is no result.
enum Stop {
    /// The engine says so; what exactly is in its context.
    Engine(Error),
    Ended(Ended),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

/// Runs a job to its end.
pub(super) fn run(job: &Job, peer: &mut dyn Peer) -> Done {
    let console = Rc::new(RefCell::new(String::new()));
    let ended = prepare(job, peer, &console).unwrap_or_else(|error| Ended::Broken {
        message: error.to_string(),
    });
    let console = std::mem::take(&mut *console.borrow_mut());
    Done { ended, console }
}

fn prepare(
    job: &Job,
    peer: &mut dyn Peer,
    console: &Rc<RefCell<String>>,
) -> rquickjs::Result<Ended> {
    let clock = Clock::new(Duration::from_millis(job.timeout_ms));
    // Never taken apart: the process ends with the job, and freeing a heap that code has left in disorder takes time at best.
    let runtime = ManuallyDrop::new(Runtime::new()?);
    runtime.set_memory_limit(usize::try_from(job.memory_mb).unwrap_or(1) << 20);
    runtime.set_max_stack_size(STACK_BYTES);
    let context = ManuallyDrop::new(Context::full(&runtime)?);
    let interrupted = clock.clone();
    runtime.set_interrupt_handler(Some(Box::new(move || interrupted.is_over())));
    Ok(context.with(|ctx| {
        let stage = match Stage::set(&ctx, job, console) {
            Ok(stage) => stage,
            Err(_) => return Ended::OutOfMemory,
        };
        match stage.play(job, peer, &clock) {
            Ok(text) => result(&text, job.max_output_bytes),
            Err(Stop::Ended(ended)) => ended,
            Err(Stop::Engine(error)) => stage.exception(&error, &clock),
        }
    }))
}

fn result(text: &str, limit: u64) -> Ended {
    let kept = cut(text, usize::try_from(limit).unwrap_or(usize::MAX));
    Ended::Result {
        text: kept.to_owned(),
        left_out: (text.len() - kept.len()) as u64,
    }
}

/// When the code's time is up, and whether that was noticed.
#[derive(Clone)]
struct Clock {
    end: Instant,
    over: Rc<Cell<bool>>,
}

impl Clock {
    fn new(within: Duration) -> Self {
        Self {
            end: Instant::now() + within,
            over: Rc::default(),
        }
    }

    fn is_over(&self) -> bool {
        if Instant::now() >= self.end {
            self.over.set(true);
        }
        self.over.get()
    }
}

/// The context with everything in it but the code.
struct Stage<'js> {
    ctx: Ctx<'js>,
    settle: Function<'js>,
    start: Function<'js>,
    explain: Function<'js>,
    asked: Rc<RefCell<VecDeque<String>>>,
}

impl<'js> Stage<'js> {
    fn set(ctx: &Ctx<'js>, job: &Job, console: &Rc<RefCell<String>>) -> rquickjs::Result<Self> {
        let asked: Rc<RefCell<VecDeque<String>>> = Rc::default();
        let (posted, console) = (Rc::clone(&asked), Rc::clone(console));
        let post = Function::new(ctx.clone(), move |request: String| {
            posted.borrow_mut().push_back(request);
        })?;
        let note = Function::new(ctx.clone(), move |line: String| {
            let mut console = console.borrow_mut();
            let room = CONSOLE_BYTES.saturating_sub(console.len() + 1);
            if room > 0 {
                console.push_str(cut(&line, room));
                console.push('\n');
            }
        })?;
        let prelude: Function<'_> = ctx.eval(PRELUDE)?;
        let made: Object<'_> = prelude.call((post, note, job.allow_fetch))?;
        Ok(Self {
            ctx: ctx.clone(),
            settle: made.get("settle")?,
            start: made.get("start")?,
            explain: made.get("explain")?,
            asked,
        })
    }

    /// Runs the code until its promise is settled; gives its text.
    fn play(&self, job: &Job, peer: &mut dyn Peer, clock: &Clock) -> Result<String, Stop> {
        let main = self.load(job, peer, clock)?;
        let arguments = self.ctx.json_parse(job.arguments.to_string())?;
        let context = serde_json::json!({"toolUseId": job.tool_use_id, "secrets": job.secrets});
        let context = self.ctx.json_parse(context.to_string())?;
        let promise: Promise<'_> = self.start.call((main, arguments, context))?;
        self.settled(&promise, peer, clock)?;
        match promise.result::<String>() {
            Some(text) => Ok(text?),
            None => Err(Stop::Ended(Ended::NeverSettles)),
        }
    }

    /// The function in the source: a module's default export, or one whose body the source is.
    fn load(&self, job: &Job, peer: &mut dyn Peer, clock: &Clock) -> Result<Value<'js>, Stop> {
        if job.source.contains("export") {
            match Module::declare(self.ctx.clone(), FILE, job.source.as_str()) {
                Ok(module) => {
                    let (module, promise) = module.eval()?;
                    self.settled(&promise, peer, clock)?;
                    if let Some(failed) = promise.result::<Value<'_>>() {
                        failed?;
                    }
                    let main: Value<'_> = module.get("default")?;
                    return Ok(main);
                }
                // The word stands somewhere in a body, unless a line begins with it.
                Err(error) if is_module(&job.source) => return Err(error.into()),
                Err(_) => drop(self.ctx.catch()),
            }
        }
        // On the first line of the source, so that its lines keep their numbers.
        let wrapped = format!("(async function (args, ctx) {{{}\n}})", job.source);
        let mut options = EvalOptions::default();
        options.filename = Some(FILE.to_owned());
        Ok(self.ctx.eval_with_options(wrapped, options)?)
    }

    /// Runs what is to be run until the promise is settled or nothing can settle it.
    fn settled(
        &self,
        promise: &Promise<'js>,
        peer: &mut dyn Peer,
        clock: &Clock,
    ) -> Result<(), Stop> {
        let mut open = 0_usize;
        let over = || Stop::Ended(Ended::OutOfTime);
        let lost = |error: io::Error| {
            let message = error.to_string();
            Stop::Ended(Ended::Broken { message })
        };
        loop {
            while promise.state() == PromiseState::Pending && self.ctx.execute_pending_job() {
                if clock.is_over() {
                    return Err(over());
                }
            }
            if clock.is_over() {
                return Err(over());
            }
            if promise.state() != PromiseState::Pending {
                return Ok(());
            }
            while let Some(request) = { self.asked.borrow_mut().pop_front() } {
                if let Ok(request) = serde_json::from_str::<Fetch>(&request) {
                    peer.ask(request).map_err(lost)?;
                    open += 1;
                }
            }
            if open == 0 {
                return Err(Stop::Ended(Ended::NeverSettles));
            }
            let fetched = peer.answer().map_err(lost)?;
            open -= 1;
            let answer = serde_json::to_string(&fetched.answer).unwrap_or_default();
            self.settle.call::<_, ()>((fetched.id, answer))?;
        }
    }

    /// What the engine threw.
    fn exception(&self, error: &Error, clock: &Clock) -> Ended {
        if clock.over.get() {
            return Ended::OutOfTime;
        }
        if matches!(error, Error::Allocation) {
            return Ended::OutOfMemory;
        }
        if !error.is_exception() {
            let message = error.to_string();
            return Ended::Exception {
                message,
                line: None,
            };
        }
        let thrown = self.ctx.catch();
        if thrown.is_null() {
            // The engine itself does so when there is no memory left for an exception.
            let message = "it threw null, as code does that has used up its memory".to_owned();
            return Ended::Exception {
                message,
                line: None,
            };
        }
        let explained = self.explain.call::<_, Vec<String>>((thrown,));
        if clock.over.get() {
            return Ended::OutOfTime;
        }
        let Ok(words) = explained else {
            drop(self.ctx.catch());
            return Ended::Exception {
                message: "it threw something that cannot be shown".to_owned(),
                line: None,
            };
        };
        let [message, stack] = words.as_slice() else {
            return Ended::OutOfMemory;
        };
        if message == "InternalError: out of memory" {
            return Ended::OutOfMemory;
        }
        Ended::Exception {
            message: cut(message, MESSAGE_BYTES).to_owned(),
            line: line(stack),
        }
    }
}

fn is_module(source: &str) -> bool {
    source
        .lines()
        .any(|line| line.trim_start().starts_with("export"))
}

/// The innermost line of the source in a stack.
fn line(stack: &str) -> Option<u32> {
    let (_, behind) = stack.split_once("tool.js:")?;
    let digits = behind.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}
