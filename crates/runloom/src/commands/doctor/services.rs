//! Checks of external services: PostgreSQL, the queue and the bus.
//!
//! Each is connected to as a server does at its start, in bounded time and without changes. Addresses may hold
//! passwords, so they are not shown.

use std::time::Duration;

use runloom_fabric::{HealthError, ServiceHealth};
use runloom_ports::secret::Secret;
use runloom_service::error::Chain;

use super::store::judge;
use super::{Finding, Verdict, finding};
use crate::config::{BusConfig, Config, QueueConfig};

/// Timeout of connecting to a database and its response.
const PATIENCE: Duration = Duration::from_secs(15);

/// The database at `url`.
pub(super) async fn check_postgres(url: &Secret) -> Finding {
    let place = "the database";
    let Ok(checked) = tokio::time::timeout(PATIENCE, runloom_store::check(url.expose())).await
    else {
        let detail = format!("{place} did not answer within {} s", PATIENCE.as_secs());
        return finding("store", Verdict::Failure, detail);
    };
    match checked {
        Ok(health) => judge(place, &health),
        Err(error) => finding("store", Verdict::Failure, Chain(&error).to_string()),
    }
}

/// The queue and the bus, if they are external services.
pub(super) async fn check_fabric(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let QueueConfig::Amqp(url) = &config.fabric.queue {
        let checked = runloom_fabric::check_amqp(url.expose()).await;
        let without = "servers start without it; their workers find runs more slowly";
        findings.push(service_finding("queue", checked, without));
    }
    if let BusConfig::Redis(url) = &config.fabric.bus {
        let checked = runloom_fabric::check_redis(url.expose()).await;
        let without = "servers start without it; they hear of each other more slowly and count rates each by itself";
        findings.push(service_finding("bus", checked, without));
    }
    findings
}

fn service_finding(
    check: &'static str,
    checked: Result<ServiceHealth, HealthError>,
    without: &str,
) -> Finding {
    match checked {
        Ok(health) if health.problems.is_empty() => finding(check, Verdict::Ok, health.service),
        Ok(health) => {
            let detail = format!("{}: {}", health.service, health.problems.join("; "));
            finding(check, Verdict::Warning, detail)
        }
        Err(error) => {
            let detail = format!("cannot be used: {error} ({without})");
            finding(check, Verdict::Failure, detail)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Environment};

    #[tokio::test]
    async fn reports_unreachable_services_without_passwords() {
        let text = "[store]\nurl = \"postgres://u:sekret@127.0.0.1:1/d\"\n\
                    [fabric]\nqueue = \"amqp://u:sekret@127.0.0.1:1\"\nbus = \"redis://u:sekret@127.0.0.1:1\"";
        let config = config::parse(text, "f", &Environment::default()).unwrap();
        let mut findings = check_fabric(&config).await;
        let url = config.store.postgres.as_ref().unwrap();
        findings.push(check_postgres(url).await);
        let checks: Vec<&str> = findings.iter().map(|finding| finding.check).collect();
        assert_eq!(checks, ["queue", "bus", "store"]);
        for Finding {
            verdict, detail, ..
        } in &findings
        {
            assert_eq!(*verdict, Verdict::Failure, "{detail}");
            assert!(!detail.contains("sekret"), "{detail}");
        }
    }

    #[test]
    fn skips_embedded_services() {
        let config = config::parse("", "f", &Environment::default()).unwrap();
        let asked = futures_util::FutureExt::now_or_never(check_fabric(&config));
        assert!(asked.is_some_and(|findings| findings.is_empty()));
    }
}
