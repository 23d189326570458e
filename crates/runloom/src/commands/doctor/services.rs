//! What is not in this process: the database that processes share, the queue and the bus.
//!
//! Each is asked as a server asks it at its start, in bounded time, and is left as it is. Addresses may hold passwords, so none is
//! shown; what the services say of themselves is.

use std::time::Duration;

use runloom_fabric::{HealthError, ServiceHealth};
use runloom_ports::secret::Secret;
use runloom_service::error::Chain;

use super::store::judge;
use super::{Finding, Verdict, finding};
use crate::config::{BusConfig, Config, QueueConfig};

/// How long a database may take to be reached and to answer.
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

/// The queue and the bus, where they are services of their own.
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
    async fn services_that_are_away_are_found_and_their_passwords_are_not_shown() {
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
    fn what_lives_in_the_process_is_not_asked_for() {
        let config = config::parse("", "f", &Environment::default()).unwrap();
        let asked = futures_util::FutureExt::now_or_never(check_fabric(&config));
        assert!(asked.is_some_and(|findings| findings.is_empty()));
    }
}
