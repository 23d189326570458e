//! The JavaScript engine: QuickJS with its own limits of memory, stack and time, inside those of the kernel.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rquickjs::context::EvalOptions;
use rquickjs::promise::PromiseState;
use rquickjs::{Context, Ctx, Error, Function, Module, Object, Promise, Runtime, Value};

use super::super::wire::{CodeEnd, CodeJob, CodeResult, FetchRequest, FetchResponse};
use crate::content::truncate;

const PRELUDE: &str = include_str!("prelude.js");

/// The file name of the source in stack traces.
const FILE: &str = "tool.js";

/// Stack limit of the code. The process has more, so that the engine's own check comes first.
const STACK_BYTES: usize = 512 * 1024;

/// Maximum bytes of console output.
pub(super) const CONSOLE_BYTES: usize = 8 * 1024;

/// Maximum bytes of an exception's message.
const MESSAGE_BYTES: usize = 4 * 1024;

/// The parent, which makes the code's requests.
pub(super) trait ParentLink {
    fn request(&mut self, request: FetchRequest) -> io::Result<()>;
    fn response(&mut self) -> io::Result<FetchResponse>;
}

/// Why there is no result.
enum Stop {
    /// An engine error; the exception is in the context.
    Engine(Error),
    End(CodeEnd),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

/// Runs a job to its end.
pub(super) fn run(job: &CodeJob, parent: &mut dyn ParentLink) -> CodeResult {
    let console = Rc::new(RefCell::new(String::new()));
    let end = evaluate(job, parent, &console).unwrap_or_else(|error| CodeEnd::SandboxFailed {
        message: error.to_string(),
    });
    let console = std::mem::take(&mut *console.borrow_mut());
    CodeResult { end, console }
}

fn evaluate(
    job: &CodeJob,
    parent: &mut dyn ParentLink,
    console: &Rc<RefCell<String>>,
) -> rquickjs::Result<CodeEnd> {
    let deadline = CodeDeadline::new(Duration::from_millis(job.timeout_ms));
    // Never freed: the process ends with the job, and freeing a large heap takes time.
    let runtime = ManuallyDrop::new(Runtime::new()?);
    runtime.set_memory_limit(usize::try_from(job.memory_mb).unwrap_or(1) << 20);
    runtime.set_max_stack_size(STACK_BYTES);
    let context = ManuallyDrop::new(Context::full(&runtime)?);
    let interrupt = deadline.clone();
    runtime.set_interrupt_handler(Some(Box::new(move || interrupt.is_past())));
    Ok(context.with(|ctx| {
        let environment = match Environment::new(&ctx, job, console) {
            Ok(environment) => environment,
            Err(_) => return CodeEnd::OutOfMemory,
        };
        match environment.run(job, parent, &deadline) {
            Ok(text) => result(&text, job.max_output_bytes),
            Err(Stop::End(end)) => end,
            Err(Stop::Engine(error)) => environment.exception(&error, &deadline),
        }
    }))
}

fn result(text: &str, limit: u64) -> CodeEnd {
    let kept = truncate(text, usize::try_from(limit).unwrap_or(usize::MAX));
    CodeEnd::Result {
        text: kept.to_owned(),
        omitted_bytes: (text.len() - kept.len()) as u64,
    }
}

/// The code's deadline, and whether it was noticed to be past.
#[derive(Clone)]
struct CodeDeadline {
    at: Instant,
    noticed: Rc<Cell<bool>>,
}

impl CodeDeadline {
    fn new(timeout: Duration) -> Self {
        Self {
            at: Instant::now() + timeout,
            noticed: Rc::default(),
        }
    }

    fn is_past(&self) -> bool {
        if Instant::now() >= self.at {
            self.noticed.set(true);
        }
        self.noticed.get()
    }
}

/// The context with the prelude, before the code is loaded.
struct Environment<'js> {
    ctx: Ctx<'js>,
    settle: Function<'js>,
    start: Function<'js>,
    explain: Function<'js>,
    /// Requests that were not sent yet, as JSON.
    requests: Rc<RefCell<VecDeque<String>>>,
}

impl<'js> Environment<'js> {
    fn new(ctx: &Ctx<'js>, job: &CodeJob, console: &Rc<RefCell<String>>) -> rquickjs::Result<Self> {
        let requests: Rc<RefCell<VecDeque<String>>> = Rc::default();
        let (posted, console) = (Rc::clone(&requests), Rc::clone(console));
        let post = Function::new(ctx.clone(), move |request: String| {
            posted.borrow_mut().push_back(request);
        })?;
        let note = Function::new(ctx.clone(), move |line: String| {
            let mut console = console.borrow_mut();
            let room = CONSOLE_BYTES.saturating_sub(console.len() + 1);
            if room > 0 {
                console.push_str(truncate(&line, room));
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
            requests,
        })
    }

    /// Runs the code until its promise is settled; returns its text.
    fn run(
        &self,
        job: &CodeJob,
        parent: &mut dyn ParentLink,
        deadline: &CodeDeadline,
    ) -> Result<String, Stop> {
        let main = self.load(job, parent, deadline)?;
        let arguments = self.ctx.json_parse(job.arguments.to_string())?;
        let context = serde_json::json!({"toolUseId": job.tool_use_id, "secrets": job.secrets});
        let context = self.ctx.json_parse(context.to_string())?;
        let promise: Promise<'_> = self.start.call((main, arguments, context))?;
        self.run_until_settled(&promise, parent, deadline)?;
        match promise.result::<String>() {
            Some(text) => Ok(text?),
            None => Err(Stop::End(CodeEnd::NeverSettles)),
        }
    }

    /// The function of the source: the default export of a module, or a function with the source as its body.
    fn load(
        &self,
        job: &CodeJob,
        parent: &mut dyn ParentLink,
        deadline: &CodeDeadline,
    ) -> Result<Value<'js>, Stop> {
        if job.source.contains("export") {
            match Module::declare(self.ctx.clone(), FILE, job.source.as_str()) {
                Ok(module) => {
                    let (module, promise) = module.eval()?;
                    self.run_until_settled(&promise, parent, deadline)?;
                    if let Some(evaluated) = promise.result::<Value<'_>>() {
                        evaluated?;
                    }
                    let main: Value<'_> = module.get("default")?;
                    return Ok(main);
                }
                // If no line begins with `export`, the word is part of a function body.
                Err(error) if is_module(&job.source) => return Err(error.into()),
                Err(_) => drop(self.ctx.catch()),
            }
        }
        // The source starts on the first line, so that its line numbers stay the same.
        let wrapped = format!("(async function (args, ctx) {{{}\n}})", job.source);
        let mut options = EvalOptions::default();
        options.filename = Some(FILE.to_owned());
        Ok(self.ctx.eval_with_options(wrapped, options)?)
    }

    /// Runs jobs and requests until the promise is settled or nothing can settle it.
    fn run_until_settled(
        &self,
        promise: &Promise<'js>,
        parent: &mut dyn ParentLink,
        deadline: &CodeDeadline,
    ) -> Result<(), Stop> {
        let mut open_requests = 0_usize;
        let out_of_time = || Stop::End(CodeEnd::OutOfTime);
        let pipe_broken = |error: io::Error| {
            let message = error.to_string();
            Stop::End(CodeEnd::SandboxFailed { message })
        };
        loop {
            while promise.state() == PromiseState::Pending && self.ctx.execute_pending_job() {
                if deadline.is_past() {
                    return Err(out_of_time());
                }
            }
            if deadline.is_past() {
                return Err(out_of_time());
            }
            if promise.state() != PromiseState::Pending {
                return Ok(());
            }
            while let Some(request) = { self.requests.borrow_mut().pop_front() } {
                if let Ok(request) = serde_json::from_str::<FetchRequest>(&request) {
                    parent.request(request).map_err(pipe_broken)?;
                    open_requests += 1;
                }
            }
            if open_requests == 0 {
                return Err(Stop::End(CodeEnd::NeverSettles));
            }
            let response = parent.response().map_err(pipe_broken)?;
            open_requests -= 1;
            let result = serde_json::to_string(&response.result).unwrap_or_default();
            self.settle.call::<_, ()>((response.id, result))?;
        }
    }

    /// The end of code that failed with an engine error.
    fn exception(&self, error: &Error, deadline: &CodeDeadline) -> CodeEnd {
        let exception = |message: &str, line| CodeEnd::Exception {
            message: message.to_owned(),
            line,
        };
        if deadline.noticed.get() {
            return CodeEnd::OutOfTime;
        }
        if matches!(error, Error::Allocation) {
            return CodeEnd::OutOfMemory;
        }
        if !error.is_exception() {
            return exception(&error.to_string(), None);
        }
        let thrown = self.ctx.catch();
        if thrown.is_null() {
            // The engine throws null when there is no memory left for an exception.
            return exception(
                "it threw null, which may mean that it is out of memory",
                None,
            );
        }
        let explained = self.explain.call::<_, Vec<String>>((thrown,));
        if deadline.noticed.get() {
            return CodeEnd::OutOfTime;
        }
        let Ok(texts) = explained else {
            drop(self.ctx.catch());
            return exception("it threw a value that cannot be shown", None);
        };
        let [message, stack] = texts.as_slice() else {
            return CodeEnd::OutOfMemory;
        };
        if message == "InternalError: out of memory" {
            return CodeEnd::OutOfMemory;
        }
        exception(truncate(message, MESSAGE_BYTES), line(stack))
    }
}

fn is_module(source: &str) -> bool {
    source
        .lines()
        .any(|line| line.trim_start().starts_with("export"))
}

/// The innermost line of the source in a stack trace.
fn line(stack: &str) -> Option<u32> {
    let (_, rest) = stack.split_once("tool.js:")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}
