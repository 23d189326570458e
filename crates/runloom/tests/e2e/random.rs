//! Chance that can be repeated: `RUNLOOM_TEST_SEED` repeats a failure; the seed is printed.

/// A generator that needs no crate: what matters is that a seed repeats it.
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A number below `limit`, which is not zero.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// Another generator, so that what one user draws does not change what another gets.
    pub(crate) fn split(&mut self) -> Self {
        Self(self.below(u64::MAX >> 33) << 32 | self.below(u64::MAX >> 33))
    }
}

/// The seed that was given, or one of this process.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("RUNLOOM_TEST_SEED").ok();
    let seed = given.map_or_else(
        || u64::from(std::process::id()),
        |text| text.parse().unwrap(),
    );
    println!("RUNLOOM_TEST_SEED={seed}");
    seed
}
