//! Settings from OpenTelemetry's variables. The library reads endpoint and headers itself; the others are read here.

use std::str::FromStr;
use std::time::Duration;

use runloom_ports::trace::{TraceId, TraceParent};

/// The settings of the environment.
#[derive(Debug)]
pub(super) struct Settings {
    /// The address of the collector, for the log.
    pub(super) endpoint: String,
    /// The service name, if the environment has one.
    pub(super) service: Option<String>,
    pub(super) sampler: Sampler,
    /// Timeout of exporting a batch.
    pub(super) timeout: Duration,
    /// Maximum spans that wait.
    pub(super) queue: usize,
    /// Maximum spans of a batch.
    pub(super) batch: usize,
    /// Maximum time that a span waits for others.
    pub(super) delay: Duration,
    /// Settings that are not supported.
    pub(super) remarks: Vec<String>,
}

impl Settings {
    /// Reads the environment; `None` when tracing is disabled.
    pub(super) fn read(lookup: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let lookup = |name: &str| lookup(name).filter(|value| !value.trim().is_empty());
        let either = |of_traces: &str, of_all: &str| lookup(of_traces).or_else(|| lookup(of_all));
        let endpoint = either(
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
        )?;
        let disabled = lookup("OTEL_SDK_DISABLED");
        let exporter = lookup("OTEL_TRACES_EXPORTER");
        let off = disabled.is_some_and(|word| word.eq_ignore_ascii_case("true"));
        if off || exporter.as_deref() == Some("none") {
            return None;
        }
        let mut remarks = Vec::new();
        if let Some(other) = exporter.filter(|exporter| exporter != "otlp") {
            remarks.push(format!(
                "OTEL_TRACES_EXPORTER is `{other}`: this server knows `otlp` and `none`, and sends to {endpoint}"
            ));
        }
        let protocol = either(
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
            "OTEL_EXPORTER_OTLP_PROTOCOL",
        );
        if let Some(other) = protocol.filter(|protocol| protocol != "http/protobuf") {
            remarks.push(format!(
                "OTEL_EXPORTER_OTLP_PROTOCOL is `{other}`: this server speaks `http/protobuf`; the endpoint must take that (a collector's port 4318)"
            ));
        }
        let sampler = Sampler::read(
            lookup("OTEL_TRACES_SAMPLER").as_deref(),
            lookup("OTEL_TRACES_SAMPLER_ARG").as_deref(),
            &mut remarks,
        );
        let mut number = |name: &str, usual: u64| match lookup(name) {
            None => usual,
            Some(text) => u64::from_str(text.trim()).unwrap_or_else(|_| {
                remarks.push(format!(
                    "{name} is `{text}`, not a whole number; {usual} holds"
                ));
                usual
            }),
        };
        let timeout = match either_number(&lookup) {
            Some(given) => given,
            None => Duration::from_secs(10),
        };
        let queue = number("OTEL_BSP_MAX_QUEUE_SIZE", 4096).clamp(1, 1_000_000) as usize;
        let batch = number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512).max(1) as usize;
        let delay = number("OTEL_BSP_SCHEDULE_DELAY", 5000).min(3_600_000);
        Some(Self {
            endpoint,
            service: lookup("OTEL_SERVICE_NAME")
                .or_else(|| named(lookup("OTEL_RESOURCE_ATTRIBUTES"))),
            sampler,
            timeout,
            queue,
            batch: batch.min(queue),
            delay: Duration::from_millis(delay),
            remarks,
        })
    }
}

/// The timeout, which the library enforces too; the HTTP client needs its own.
fn either_number(lookup: &impl Fn(&str) -> Option<String>) -> Option<Duration> {
    let text = lookup("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT")
        .or_else(|| lookup("OTEL_EXPORTER_OTLP_TIMEOUT"))?;
    text.trim().parse().ok().map(Duration::from_millis)
}

/// The service name among the resource attributes.
fn named(attributes: Option<String>) -> Option<String> {
    let attributes = attributes?;
    attributes.split(',').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        (key.trim() == "service.name").then(|| value.trim().to_owned())
    })
}

/// Which runs are traced.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sampler {
    /// Follow the decision of the client's trace.
    follows_parent: bool,
    /// The fraction of the other runs.
    share: f64,
}

impl Sampler {
    fn read(name: Option<&str>, argument: Option<&str>, remarks: &mut Vec<String>) -> Self {
        let name = name.unwrap_or("parentbased_always_on");
        let follows_parent = name.starts_with("parentbased_");
        let share = match name.trim_start_matches("parentbased_") {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => ratio(argument, remarks),
            _ => {
                remarks.push(format!(
                    "OTEL_TRACES_SAMPLER is `{name}`: this server knows always_on, always_off and traceidratio, each also with parentbased_ before it; every run is traced"
                ));
                1.0
            }
        };
        Self {
            follows_parent,
            share,
        }
    }

    /// Whether a run of this trace is traced.
    pub(super) fn samples(&self, trace: TraceId, parent: Option<&TraceParent>) -> bool {
        if let Some(parent) = parent.filter(|_| self.follows_parent) {
            return parent.sampled;
        }
        if self.share >= 1.0 {
            return true;
        }
        // By the last 32 bits, which are random in every id; the bits before them count up in ids of one moment.
        let [.., a, b, c, d] = trace.0;
        let drawn = u32::from_be_bytes([a, b, c, d]);
        f64::from(drawn) < self.share * f64::from(u32::MAX)
    }
}

fn ratio(argument: Option<&str>, remarks: &mut Vec<String>) -> f64 {
    let Some(argument) = argument else {
        return 1.0;
    };
    match argument.trim().parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => share,
        _ => {
            remarks.push(format!(
                "OTEL_TRACES_SAMPLER_ARG is `{argument}`, not a number from 0 to 1; every run is traced"
            ));
            1.0
        }
    }
}

#[cfg(test)]
mod tests {
    use runloom_engine::trace::trace_of;
    use runloom_ports::clock::Clock;
    use runloom_protocol::id::RunId;

    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Option<Settings> {
        let lookup = |name: &str| {
            let found = pairs.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Settings::read(lookup)
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");

    #[test]
    fn traces_nothing_without_a_collector() {
        assert!(read(&[]).is_none());
        assert!(read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]).is_none());
        assert!(read(&[ENDPOINT]).is_some());
        for off in [
            ("OTEL_SDK_DISABLED", "TRUE"),
            ("OTEL_TRACES_EXPORTER", "none"),
        ] {
            assert!(read(&[ENDPOINT, off]).is_none(), "{off:?}");
        }
    }

    #[test]
    fn reports_unsupported_settings() {
        for odd in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_TRACES_EXPORTER", "zipkin"),
            ("OTEL_TRACES_SAMPLER", "xray"),
            ("OTEL_BSP_SCHEDULE_DELAY", "soon"),
        ] {
            let settings = read(&[ENDPOINT, odd]).unwrap();
            let [remark] = settings.remarks.as_slice() else {
                panic!("{odd:?}: {:?}", settings.remarks);
            };
            assert!(remark.contains(odd.1), "{remark}");
        }
        assert_eq!(read(&[ENDPOINT]).unwrap().remarks, Vec::<String>::new());
    }

    #[test]
    fn follows_the_clients_sampling_decision() {
        let sampler = |name: &str, argument: &str| {
            let pairs = [
                ENDPOINT,
                ("OTEL_TRACES_SAMPLER", name),
                ("OTEL_TRACES_SAMPLER_ARG", argument),
            ];
            read(&pairs).unwrap().sampler
        };
        let trace = |last: u8| TraceId([last; 16]);
        let parent = |sampled: bool| {
            let flag = u8::from(sampled);
            let text = format!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{flag:02x}");
            TraceParent::parse(&text).unwrap()
        };
        let usual = read(&[ENDPOINT]).unwrap().sampler;
        assert!(usual.samples(trace(9), None));
        assert!(!usual.samples(trace(9), Some(&parent(false))));
        let off = sampler("parentbased_always_off", "");
        assert!(!off.samples(trace(9), None));
        assert!(off.samples(trace(9), Some(&parent(true))));
        let all = sampler("always_on", "");
        assert!(all.samples(trace(9), Some(&parent(false))));
        let half = sampler("traceidratio", "0.5");
        assert!(half.samples(trace(0x10), None));
        assert!(!half.samples(trace(0xf0), None));
    }

    #[test]
    fn samples_the_configured_fraction() {
        let sampler = Sampler {
            follows_parent: true,
            share: 0.1,
        };
        let drawn = (0..2_000)
            .map(|_| trace_of(&RunId::from_suffix(Clock.new_id())))
            .filter(|trace| sampler.samples(*trace, None))
            .count();
        // Six standard deviations around two hundred.
        assert!((120..=280).contains(&drawn), "{drawn} of 2000");
    }
}
