//! The `pgoutbox` binary.

use std::process::ExitCode;

// librdkafka allocates an event on one thread and frees it on another, which glibc's malloc is slow
// at; unprefixed, this one serves C as well.
#[cfg(not(target_env = "msvc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

// Its default is to keep freed pages for ten seconds. After an outage those are most of a window and
// of the broker client's copy of it, and what comes next would be on top of them.
#[cfg(not(target_env = "msvc"))]
#[expect(unsafe_code, reason = "jemalloc finds its settings by this name")]
#[unsafe(export_name = "malloc_conf")]
static MALLOC_CONF: &[u8; 38] = b"dirty_decay_ms:500,muzzy_decay_ms:500\0";

fn main() -> ExitCode {
    pgoutbox::cli::main()
}
