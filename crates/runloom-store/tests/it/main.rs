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

mod sqlite {
    use crate::fixture::Fixture;

    async fn make() -> Fixture {
        Fixture::sqlite().await
    }

    crate::contract::suite!(make);
}
