//! A look at the service.

use std::time::Duration;

use redis::{AsyncConnectionConfig, RedisResult};

use super::client;
use crate::Error;
use crate::look::{LookError, Seen};

/// How long the service may take to connect, and to answer.
const ANSWER_AT_MOST: Duration = Duration::from_secs(5);

/// Looks at the address alone.
pub(crate) fn check_url(url: &str) -> Result<(), Error> {
    client(url).map(drop)
}

/// Connects, and asks what is there.
pub(crate) async fn look(url: &str) -> Result<Seen, LookError> {
    let client = client(url)?;
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(ANSWER_AT_MOST))
        .set_response_timeout(Some(ANSWER_AT_MOST));
    let asking = async {
        let mut connection = client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        let told: RedisResult<String> = redis::cmd("INFO").query_async(&mut connection).await;
        match told {
            Ok(told) => Ok(told),
            // Who may not ask for that may still be let in.
            Err(_) => redis::cmd("PING")
                .query_async::<String>(&mut connection)
                .await
                .map(|_| String::new()),
        }
    };
    // The library bounds connecting and answering, but not each step between them, such as the lookup of a name.
    let told = tokio::time::timeout(2 * ANSWER_AT_MOST, asking).await;
    let told = told.map_err(|_| {
        LookError::Away(format!(
            "no answer within {} s",
            2 * ANSWER_AT_MOST.as_secs()
        ))
    })?;
    told.map(|told| seen(&told))
        .map_err(|error| LookError::Away(error.to_string()))
}

fn seen(info: &str) -> Seen {
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
        (None, None) => "Valkey or Redis, of a version that it does not tell us".to_owned(),
    };
    let is_replica = value("role").is_some_and(|role| role != "master");
    let problems = is_replica.then(|| {
        "it is a replica, which takes no writes: rate windows cannot be counted there".to_owned()
    });
    Seen {
        service,
        problems: problems.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_is_and_what_it_cannot_do_is_read_from_its_own_words() {
        let valkey = "# Server\r\nredis_version:7.2.4\r\nvalkey_version:8.1.1\r\n# Replication\r\nrole:master\r\n";
        assert_eq!(seen(valkey).service, "Valkey 8.1.1");
        assert!(seen(valkey).problems.is_empty());
        let replica = seen("redis_version:7.0.15\r\nrole:slave\r\n");
        assert_eq!(replica.service, "Redis 7.0.15");
        assert!(replica.problems[0].contains("replica"), "{replica:?}");
        assert!(seen("").service.contains("does not tell"));
    }
}
