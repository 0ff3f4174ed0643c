//! The library as an application writes it: handles with typed results, and workers that know what they run.

#[path = "runtime/fixture.rs"]
#[expect(dead_code, reason = "only the engine is needed here")]
mod fixture;

#[path = "library/limits.rs"]
mod limits;
#[path = "library/register.rs"]
mod register;
#[path = "library/result.rs"]
mod result;
