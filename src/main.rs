//! The `pgoutbox` binary.

use std::process::ExitCode;

// librdkafka allocates an event on one thread and frees it on another, which glibc's malloc is slow
// at; unprefixed, this one serves C as well.
#[cfg(not(target_env = "msvc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    pgoutbox::cli::main()
}
