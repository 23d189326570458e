//! A witness inside the database: who wrote which rows of the log in which epoch, and who took over whose run when.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::replicas::Death;

/// Triggers that write down what nobody who writes could know he should hide. The session's name is the process's.
const INSTALL: &str = "
    CREATE TABLE audit_log (no BIGSERIAL, run BIGINT, first_seq BIGINT, last_seq BIGINT, epoch BIGINT, writer TEXT);
    CREATE FUNCTION audit_log() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO audit_log (run, first_seq, last_seq, epoch, writer)
        SELECT NEW.run, NEW.first_seq, NEW.last_seq, runs.epoch, current_setting('application_name')
        FROM runs WHERE runs.no = NEW.run;
        RETURN NULL; END $$;
    CREATE TRIGGER audit_log AFTER INSERT ON log FOR EACH ROW EXECUTE FUNCTION audit_log();
    CREATE TABLE audit_claims (at TIMESTAMPTZ, run BIGINT, before TEXT, worker TEXT, process TEXT);
    CREATE FUNCTION audit_claims() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO audit_claims
        VALUES (clock_timestamp(), NEW.no, OLD.worker, NEW.worker, current_setting('application_name'));
        RETURN NULL; END $$;
    CREATE TRIGGER audit_claims AFTER UPDATE OF epoch ON runs FOR EACH ROW
        WHEN (NEW.epoch > OLD.epoch) EXECUTE FUNCTION audit_claims();";

/// What the witness can be asked.
pub(crate) struct Audit {
    url: String,
}

/// One row of the log.
struct Written {
    run: String,
    first: u64,
    last: u64,
    epoch: u64,
    writer: String,
}

impl Audit {
    pub(crate) fn install(url: &str) -> Self {
        let audit = Self {
            url: url.to_owned(),
        };
        audit.query(INSTALL);
        audit
    }

    /// Rows, their columns between bars.
    fn query(&self, sql: &str) -> Vec<String> {
        let output = Command::new("psql")
            .args([
                &self.url,
                "-X",
                "-q",
                "-A",
                "-t",
                "-v",
                "ON_ERROR_STOP=1",
                "-c",
                sql,
            ])
            .output()
            .expect("the fault suite needs psql: install the package postgresql-client");
        assert!(output.status.success(), "{sql}: {output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// Ids of all runs.
    pub(crate) fn runs(&self) -> BTreeSet<String> {
        self.query("SELECT id FROM runs").into_iter().collect()
    }

    /// Rows that do not follow each other, epochs that interleave, epochs with two writers.
    pub(crate) fn violations(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut last: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        let mut writers: BTreeMap<(String, u64), String> = BTreeMap::new();
        for row in self.log() {
            let (seq, epoch) = last.get(&row.run).copied().unwrap_or((0, 0));
            if row.first != seq + 1 {
                let Written {
                    run, first, writer, ..
                } = &row;
                found.push(format!("{run}: {writer} wrote event {first} after {seq}"));
            }
            if row.epoch < epoch {
                let Written { run, writer, .. } = &row;
                found.push(format!(
                    "{run}: {writer} wrote in epoch {} after {epoch}",
                    row.epoch
                ));
            }
            let writer = writers
                .entry((row.run.clone(), row.epoch))
                .or_insert_with(|| row.writer.clone());
            if *writer != row.writer {
                let Written { run, epoch, .. } = &row;
                found.push(format!(
                    "{run}: {writer} and {} wrote in epoch {epoch}",
                    row.writer
                ));
            }
            last.insert(row.run, (row.last, row.epoch));
        }
        found
    }

    fn log(&self) -> Vec<Written> {
        let rows = self.query(
            "SELECT runs.id, first_seq, last_seq, audit_log.epoch, writer
             FROM audit_log JOIN runs ON runs.no = audit_log.run ORDER BY audit_log.no",
        );
        let written = |row: &String| {
            let mut columns = row.split('|');
            let mut column = || columns.next().unwrap().to_owned();
            Written {
                run: column(),
                first: column().parse().unwrap(),
                last: column().parse().unwrap(),
                epoch: column().parse().unwrap(),
                writer: column(),
            }
        };
        rows.iter().map(written).collect()
    }

    /// The process that holds the most runs now.
    pub(crate) fn busiest(&self) -> Option<String> {
        let held = "SELECT process FROM runs JOIN (SELECT DISTINCT worker, process FROM audit_claims) AS holder
            ON holder.worker = runs.worker GROUP BY process ORDER BY count(*) DESC LIMIT 1";
        self.query(held).pop()
    }

    /// How many claims took a run from this process.
    pub(crate) fn taken_from(&self, process: &str) -> usize {
        let taken = format!(
            "SELECT 1 FROM audit_claims WHERE before IN (SELECT worker FROM audit_claims WHERE process = '{process}')"
        );
        self.query(&taken).len()
    }

    /// Makes what a process held claimable at once, as if its silence had lasted long enough.
    pub(crate) fn forget(&self, process: &str) {
        self.query(&format!(
            "UPDATE workers SET heartbeat_at = heartbeat_at - INTERVAL '1 hour'
             WHERE id IN (SELECT worker FROM audit_claims WHERE process = '{process}')"
        ));
    }

    /// Seconds from each death to the claims of what the dead held.
    pub(crate) fn take_overs(&self, deaths: &[Death]) -> Vec<f64> {
        let rows = self.query(
            "SELECT extract(epoch FROM claim.at), holder.process
             FROM audit_claims AS claim
             JOIN (SELECT DISTINCT worker, process FROM audit_claims) AS holder ON holder.worker = claim.before",
        );
        let mut seconds = Vec::new();
        for row in rows {
            let (at, process) = row.split_once('|').unwrap();
            let at: f64 = at.parse().unwrap();
            // The last death before the claim: a process may have been paused and killed later.
            let since = deaths
                .iter()
                .filter(|death| death.process == process)
                .map(|death| at - unix(death.at));
            seconds.extend(since.filter(|since| *since >= 0.0).min_by(f64::total_cmp));
        }
        seconds.sort_by(f64::total_cmp);
        seconds
    }
}

fn unix(at: SystemTime) -> f64 {
    at.duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}
