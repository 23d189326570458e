//! PostgreSQL's statements in SQLite's dialect.

/// A database's dialect of SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

/// Row locks and collations that SQLite does not have. Longer clauses first.
const DROPPED: [&str; 5] = [
    " FOR UPDATE SKIP LOCKED",
    " FOR NO KEY UPDATE",
    " FOR KEY SHARE",
    " FOR UPDATE",
    " COLLATE \"C\"",
];

/// Rewrites `$1` to `?1` and removes casts (`::TEXT`), row locks and collations.
pub(crate) fn for_sqlite(sql: &str) -> String {
    let mut rewritten = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some(at) = rest.find(['$', ':']) {
        rewritten.push_str(&rest[..at]);
        let tail = &rest[at..];
        if let Some(cast) = tail.strip_prefix("::") {
            rest = cast.trim_start_matches(|c: char| c.is_ascii_uppercase());
            rest = rest.strip_prefix("[]").unwrap_or(rest);
        } else {
            rewritten.push(if tail.starts_with('$') { '?' } else { ':' });
            rest = &tail[1..];
        }
    }
    rewritten.push_str(rest);
    for clause in DROPPED {
        if rewritten.contains(clause) {
            rewritten = rewritten.replace(clause, "");
        }
    }
    rewritten
}

#[cfg(test)]
mod tests {
    use super::for_sqlite;

    #[test]
    fn rewrites_placeholders_casts_locks_and_collations() {
        let cases = [
            (
                "SELECT a FROM t WHERE b = $1 AND c = $12",
                "SELECT a FROM t WHERE b = ?1 AND c = ?12",
            ),
            (
                "SELECT $1::BYTEA, $2::BIGINT[] IS NULL",
                "SELECT ?1, ?2 IS NULL",
            ),
            (
                "SELECT no FROM t WHERE id = $1 FOR KEY SHARE",
                "SELECT no FROM t WHERE id = ?1",
            ),
            (
                "DELETE FROM t WHERE no IN (SELECT no FROM t LIMIT $1 FOR UPDATE SKIP LOCKED)",
                "DELETE FROM t WHERE no IN (SELECT no FROM t LIMIT ?1)",
            ),
            (
                "SELECT slug FROM t ORDER BY slug COLLATE \"C\"",
                "SELECT slug FROM t ORDER BY slug",
            ),
            ("SELECT ':' || a", "SELECT ':' || a"),
        ];
        for (postgres, sqlite) in cases {
            assert_eq!(for_sqlite(postgres), sqlite);
        }
    }
}
