//! Metrics of the process: one static set, counted in place and rendered by [`render`].
//!
//! Labels are few and known in advance: never a workspace, a run or a name that a client chose.

mod process;
mod text;

use runloom_protocol::approval::ApprovalStatus;
use runloom_protocol::outcome::ErrorClass;
use runloom_protocol::resource::RunStatus;

use runloom_ports::instruments::STORE_METRICS;
use runloom_ports::windows::Bucket;
use runloom_protocol::definition::ProviderKind;

pub use runloom_ports::instruments::{Counter, Gauge, Histogram, SECONDS, SIZES};
pub use text::{CONTENT_TYPE, MetricType, Text};

/// The metrics of this process.
pub static METRICS: Metrics = Metrics::new();

/// One row per provider kind, and one for calls of other models.
const PROVIDERS: usize = ProviderKind::ALL.len() + 1;
/// Outcomes of a model call. All but the first two are error classes; the last stands for all others.
const OUTCOMES: [&str; 10] = [
    "ok",
    "interrupted",
    "rate_limit",
    "overloaded",
    "server",
    "timeout",
    "auth",
    "invalid_request",
    "context_window",
    "other",
];
const STATUSES: [&str; 3] = ["succeeded", "failed", "cancelled"];
const APPROVALS: [ApprovalStatus; 3] = [
    ApprovalStatus::Approved,
    ApprovalStatus::Denied,
    ApprovalStatus::Expired,
];
const BUCKETS: [&str; 5] = ["run_starts", "lifecycle", "writes", "reads", "sign_ins"];
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Outcome of a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// The response was read to its end.
    Completed,
    /// A cancel, a deadline or the shutdown ended it.
    Interrupted,
    /// It failed with an error of this class.
    Failed(ErrorClass),
}

/// Everything that is counted.
#[derive(Debug)]
#[expect(missing_docs, reason = "each has its help text in `render`")]
pub struct Metrics {
    pub runs_accepted: Counter,
    pub runs_parked: Counter,
    /// Children that delegates started.
    pub sub_runs: Counter,
    pub runs_deferred: Counter,
    runs_ended: [Counter; STATUSES.len()],
    pub run_wait: Histogram,
    pub claims: Counter,
    pub claims_in_vain: Counter,
    pub claim_time: Histogram,
    pub takeovers: Counter,
    pub fenced: Counter,
    pub places: Gauge,
    pub places_taken: Gauge,
    pub subscribers: Gauge,
    model_calls: [[Counter; OUTCOMES.len()]; PROVIDERS],
    model_time: [Histogram; PROVIDERS],
    pub tokens_in: Counter,
    pub tokens_cached: Counter,
    pub tokens_out: Counter,
    pub tokens_reasoning: Counter,
    pub tools_ok: Counter,
    pub tools_failed: Counter,
    pub tool_time: Histogram,
    pub client_calls: Counter,
    approvals_decided: [Counter; APPROVALS.len()],
    pub model_fallbacks: Counter,
    limited: [Counter; BUCKETS.len()],
    pub shared_windows_missed: Counter,
    pub refused_by_server: Counter,
    pub refused_by_workspace: Counter,
    answers: [Counter; CLASSES.len()],
    pub answer_time: Histogram,
    pub connections: Gauge,
    pub catalogs_built: Counter,
    pub spans_sent: Counter,
    pub spans_dropped: Counter,
}

impl Metrics {
    const fn new() -> Self {
        Self {
            runs_accepted: Counter::new(),
            runs_parked: Counter::new(),
            sub_runs: Counter::new(),
            runs_deferred: Counter::new(),
            runs_ended: [const { Counter::new() }; STATUSES.len()],
            run_wait: Histogram::new(&SECONDS),
            claims: Counter::new(),
            claims_in_vain: Counter::new(),
            claim_time: Histogram::new(&SECONDS),
            takeovers: Counter::new(),
            fenced: Counter::new(),
            places: Gauge::new(),
            places_taken: Gauge::new(),
            subscribers: Gauge::new(),
            model_calls: [const { [const { Counter::new() }; OUTCOMES.len()] }; PROVIDERS],
            model_time: [const { Histogram::new(&SECONDS) }; PROVIDERS],
            tokens_in: Counter::new(),
            tokens_cached: Counter::new(),
            tokens_out: Counter::new(),
            tokens_reasoning: Counter::new(),
            tools_ok: Counter::new(),
            tools_failed: Counter::new(),
            tool_time: Histogram::new(&SECONDS),
            client_calls: Counter::new(),
            approvals_decided: [const { Counter::new() }; APPROVALS.len()],
            model_fallbacks: Counter::new(),
            limited: [const { Counter::new() }; BUCKETS.len()],
            shared_windows_missed: Counter::new(),
            refused_by_server: Counter::new(),
            refused_by_workspace: Counter::new(),
            answers: [const { Counter::new() }; CLASSES.len()],
            answer_time: Histogram::new(&SECONDS),
            connections: Gauge::new(),
            catalogs_built: Counter::new(),
            spans_sent: Counter::new(),
            spans_dropped: Counter::new(),
        }
    }

    /// An approval was decided, or expired.
    pub fn approval_decided(&self, status: ApprovalStatus) {
        let place = APPROVALS.iter().position(|known| *known == status);
        if let Some(place) = place {
            self.approvals_decided[place].add(1);
        }
    }

    /// A run has ended.
    pub fn run_ended(&self, status: RunStatus) {
        let index = STATUSES.iter().position(|known| *known == status.as_str());
        if let Some(index) = index {
            self.runs_ended[index].add(1);
        }
    }

    /// A model call has ended.
    pub fn model_called(&self, provider: &str, outcome: CallOutcome, took: std::time::Duration) {
        let kind = ProviderKind::parse(provider);
        let provider = kind.map_or(PROVIDERS - 1, |kind| kind as usize);
        let outcome = match outcome {
            CallOutcome::Completed => 0,
            CallOutcome::Interrupted => 1,
            CallOutcome::Failed(class) => OUTCOMES
                .iter()
                .position(|known| *known == class.as_str())
                .unwrap_or(OUTCOMES.len() - 1),
        };
        self.model_calls[provider][outcome].add(1);
        self.model_time[provider].took(took);
    }

    /// A request was refused by a rate limit.
    pub fn rate_limited(&self, bucket: Bucket) {
        let index = BUCKETS.iter().position(|known| *known == bucket.as_str());
        if let Some(index) = index {
            self.limited[index].add(1);
        }
    }

    /// A request was answered.
    pub fn answered(&self, status: u16, took: std::time::Duration) {
        let class = usize::from(status / 100).clamp(1, CLASSES.len()) - 1;
        self.answers[class].add(1);
        self.answer_time.took(took);
    }
}

/// Appends the metrics of this process.
pub fn render(text: &mut Text) {
    let metrics = &METRICS;
    runs(text, metrics);
    storage(text);
    models_and_tools(text, metrics);
    requests(text, metrics);
    text.labelled(
        "runloom_build_info",
        MetricType::Gauge,
        "The version of the program.",
        [(format!("{{version=\"{}\"}}", env!("CARGO_PKG_VERSION")), 1)],
    );
    process::write(text);
}

fn runs(text: &mut Text, metrics: &Metrics) {
    let help = "Runs and session messages that this process accepted.";
    text.counter("runloom_runs_accepted_total", help, &metrics.runs_accepted);
    text.counters(
        "runloom_runs_ended_total",
        "status",
        "Runs that this process brought to an end.",
        STATUSES.into_iter().zip(&metrics.runs_ended),
    );
    let help = "Runs that left memory because they wait for a client.";
    text.counter("runloom_runs_parked_total", help, &metrics.runs_parked);
    let help = "Runs that delegates started.";
    text.counter("runloom_sub_runs_total", help, &metrics.sub_runs);
    let help = "Attempts to take up a run that this process could not plan and left for later.";
    text.counter("runloom_runs_stalled_total", help, &metrics.runs_deferred);
    text.histogram(
        "runloom_run_wait_seconds",
        "From the acceptance of a run to its first claim by this process.",
        &metrics.run_wait,
    );
    let help = "Claims of runs that this process got.";
    text.counter("runloom_claims_total", help, &metrics.claims);
    let help = "Claims of runs that another had, that were over, or that failed.";
    text.counter(
        "runloom_claims_in_vain_total",
        help,
        &metrics.claims_in_vain,
    );
    text.histogram(
        "runloom_claim_seconds",
        "How long the store took to answer a claim.",
        &metrics.claim_time,
    );
    let help = "Runs taken over from a worker that stayed silent.";
    text.counter("runloom_takeovers_total", help, &metrics.takeovers);
    let help = "Runs that this process lost to another worker while it drove them.";
    text.counter("runloom_fenced_total", help, &metrics.fenced);
    let help = "Runs that this process may drive at once.";
    text.gauge("runloom_places", help, metrics.places.get());
    let help = "Runs that this process drives now.";
    text.gauge("runloom_places_taken", help, metrics.places_taken.get());
    let help = "Open event streams.";
    text.gauge(
        "runloom_stream_subscribers",
        help,
        metrics.subscribers.get(),
    );
    let help = "How often the catalog of models was built anew.";
    text.counter(
        "runloom_catalogs_built_total",
        help,
        &metrics.catalogs_built,
    );
}

fn storage(text: &mut Text) {
    let help = "Transactions that wrote to logs of runs.";
    text.counter("runloom_commits_total", help, &STORE_METRICS.commits);
    let help = "Writes to logs of runs that failed.";
    let failures = &STORE_METRICS.commit_failures;
    text.counter("runloom_commit_failures_total", help, failures);
    text.histogram(
        "runloom_commit_seconds",
        "How long such a transaction took.",
        &STORE_METRICS.commit_time,
    );
    text.histogram(
        "runloom_commit_batches",
        "How many writes shared a transaction.",
        &STORE_METRICS.commit_size,
    );
}

/// The label of each row of [`PROVIDERS`].
fn provider_labels<'a>() -> impl Iterator<Item = &'a str> {
    let kinds = ProviderKind::ALL.iter().map(|kind| kind.as_str());
    kinds.chain(["other"])
}

fn models_and_tools(text: &mut Text, metrics: &Metrics) {
    let calls = provider_labels().zip(&metrics.model_calls);
    let calls = calls.flat_map(|(provider, outcomes)| {
        let outcomes = OUTCOMES.into_iter().zip(outcomes);
        outcomes.filter_map(move |(outcome, counter)| {
            let labels = format!("{{provider=\"{provider}\",outcome=\"{outcome}\"}}");
            (counter.get() > 0).then(|| (labels, counter.get()))
        })
    });
    let help = "Model calls, repeated ones included.";
    text.labelled(
        "runloom_model_calls_total",
        MetricType::Counter,
        help,
        calls,
    );
    text.histograms(
        "runloom_model_call_seconds",
        "provider",
        "How long model calls took, from the request to the last byte.",
        provider_labels().zip(&metrics.model_time),
    );
    text.counters(
        "runloom_tokens_total",
        "kind",
        "Tokens of runs that ended here; cached are among the input, reasoning among the output.",
        [
            ("input", &metrics.tokens_in),
            ("cached", &metrics.tokens_cached),
            ("output", &metrics.tokens_out),
            ("reasoning", &metrics.tokens_reasoning),
        ],
    );
    text.counters(
        "runloom_tool_calls_total",
        "outcome",
        "Tools that this process executed.",
        [("ok", &metrics.tools_ok), ("error", &metrics.tools_failed)],
    );
    text.histogram(
        "runloom_tool_call_seconds",
        "How long they took.",
        &metrics.tool_time,
    );
    let help = "Runs whose model was out of service and that went on with their fallback.";
    let fallbacks = &metrics.model_fallbacks;
    text.counter("runloom_model_fallbacks_total", help, fallbacks);
    let help = "Calls that clients were asked to execute.";
    text.counter("runloom_client_calls_total", help, &metrics.client_calls);
    text.counters(
        "runloom_approvals_decided_total",
        "decision",
        "Approvals that were decided, or expired, while this process drove their run.",
        APPROVALS
            .map(ApprovalStatus::as_str)
            .into_iter()
            .zip(&metrics.approvals_decided),
    );
    text.counters(
        "runloom_trace_spans_total",
        "outcome",
        "Spans of traces, by whether the collector got them.",
        [
            ("sent", &metrics.spans_sent),
            ("dropped", &metrics.spans_dropped),
        ],
    );
}

fn requests(text: &mut Text, metrics: &Metrics) {
    text.counters(
        "runloom_http_answers_total",
        "status",
        "Answers to requests.",
        CLASSES.into_iter().zip(&metrics.answers),
    );
    text.histogram(
        "runloom_http_answer_seconds",
        "From a request to the head of its answer.",
        &metrics.answer_time,
    );
    let help = "Open connections of clients.";
    text.gauge("runloom_http_connections", help, metrics.connections.get());
    text.counters(
        "runloom_rate_limited_total",
        "bucket",
        "Requests refused by a rate limit.",
        BUCKETS.into_iter().zip(&metrics.limited),
    );
    let help =
        "Requests whose shared rate window could not be asked, so that this process counted alone.";
    let missed = &metrics.shared_windows_missed;
    text.counter("runloom_shared_windows_missed_total", help, missed);
    text.counters(
        "runloom_admission_refused_total",
        "limit",
        "Runs refused because too many wait.",
        [
            ("server", &metrics.refused_by_server),
            ("workspace", &metrics.refused_by_workspace),
        ],
    );
}
