//! Read-only health check of the service, for `runloom doctor`.

use std::time::Duration;

use redis::{AsyncConnectionConfig, RedisResult};

use super::client;
use crate::Error;
use crate::service_health::{HealthError, ServiceHealth};

/// Timeout of connecting, and of each response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Validates an address of Valkey or Redis without connecting. [`crate::ValkeyBus::start`] refuses what this refuses.
///
/// # Errors
/// [`Error::Address`], which does not repeat the address.
pub fn check_redis_url(url: &str) -> Result<(), Error> {
    client(url).map(drop)
}

/// Connects to Valkey or Redis as a server process does, in bounded time, and reads `INFO`.
///
/// # Errors
/// The address is invalid, the service does not answer, or it refuses the credentials.
pub async fn check_redis(url: &str) -> Result<ServiceHealth, HealthError> {
    let client = client(url)?;
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(RESPONSE_TIMEOUT))
        .set_response_timeout(Some(RESPONSE_TIMEOUT));
    let checking = async {
        let mut connection = client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        let info: RedisResult<String> = redis::cmd("INFO").query_async(&mut connection).await;
        match info {
            Ok(info) => Ok(info),
            // A user may be allowed to connect without being allowed to read `INFO`.
            Err(_) => redis::cmd("PING")
                .query_async::<String>(&mut connection)
                .await
                .map(|_| String::new()),
        }
    };
    // The library's timeouts do not cover every step, such as the DNS lookup.
    let checked = tokio::time::timeout(2 * RESPONSE_TIMEOUT, checking).await;
    let checked = checked.map_err(|_| {
        HealthError::Unreachable(format!(
            "no answer within {} s",
            2 * RESPONSE_TIMEOUT.as_secs()
        ))
    })?;
    checked
        .map(|info| read_info(&info))
        .map_err(|error| HealthError::Unreachable(error.to_string()))
}

fn read_info(info: &str) -> ServiceHealth {
    let value = |name: &str| {
        let lines = info.lines().filter_map(|line| line.split_once(':'));
        lines
            .filter(|(key, _)| *key == name)
            .map(|(_, value)| value.trim())
            .next()
    };
    let service = match (value("valkey_version"), value("redis_version")) {
        (Some(version), _) => format!("Valkey {version}"),
        (None, Some(version)) => format!("Redis {version}"),
        (None, None) => "Valkey or Redis, version unknown".to_owned(),
    };
    let is_replica = value("role").is_some_and(|role| role != "master");
    let problems = is_replica.then(|| {
        "it is a replica and accepts no writes, so rate windows cannot be shared".to_owned()
    });
    ServiceHealth {
        service,
        problems: problems.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_version_and_role_from_info() {
        let valkey = "# Server\r\nredis_version:7.2.4\r\nvalkey_version:8.1.1\r\n# Replication\r\nrole:master\r\n";
        assert_eq!(read_info(valkey).service, "Valkey 8.1.1");
        assert!(read_info(valkey).problems.is_empty());
        let replica = read_info("redis_version:7.0.15\r\nrole:slave\r\n");
        assert_eq!(replica.service, "Redis 7.0.15");
        assert!(replica.problems[0].contains("replica"), "{replica:?}");
        assert!(read_info("").service.contains("version unknown"));
    }
}
