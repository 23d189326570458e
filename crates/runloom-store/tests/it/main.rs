//! The store's contract, checked for every database there is: a new one joins with a module like `sqlite` below.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says by failing what it expected"
)]

mod contract;
mod crash;
mod fixture;
mod open;
mod side_files;

/// Where the tests of crashes put their database.
async fn ground() -> (String, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("runs.db").display());
    (url, folder)
}

mod sqlite {
    use crate::fixture::Fixture;

    async fn make() -> Fixture {
        let (url, folder) = crate::ground().await;
        Fixture::at(url, folder).await
    }

    crate::contract::suite!(make);
}
