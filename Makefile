# What a newcomer types. The work is done by cargo and by the scripts in dev/; `make` alone lists the targets.

.DEFAULT_GOAL := help
.PHONY: help demo test check bench test-soak soak services-down build-tools

# What the tests need of the crate beyond a release: places where a test may break the relay on purpose.
FEATURES := --features sabotage

# Tests at a time: most of them wait for a server most of their time, on whatever number of cores.
THREADS := 4

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## orders through a real Kafka and payments through a real RabbitMQ, judged at the end (DEMO_SECONDS=30)
	@dev/services install build postgres kafka rabbitmq
	cargo build --release --locked
	@dev/demo

# An assertion's place and text say it all; a backtrace, which is the same for every test, pushes them out of a log's tail.
test: export RUST_BACKTRACE := 0
test: ## every test, on real servers
	@dev/services install
	cargo test --locked $(FEATURES) --no-run
	dev/with-services test postgres kafka rabbitmq -- cargo test --locked $(FEATURES) -- --test-threads=$(THREADS)

check: build-tools ## format and lints, as the CI wants them
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings
	cargo clippy --locked --all-targets $(FEATURES) -- -D warnings

bench: ## speed, latency and memory beside other readers of the same slot; lines to target/bench.jsonl
	@dev/services install
	cargo bench --locked --bench relay --no-run
	dev/with-services bench postgres kafka rabbitmq -- cargo bench --locked --bench relay

test-soak: ## every test at its full length (a million rows, real time-outs), the longest on every version too
	PGOUTBOX_SOAK=1 $(MAKE) --no-print-directory test

soak: ## the demo for an hour (SOAK_SECONDS=3600)
	@$(MAKE) --no-print-directory demo DEMO_SECONDS=$(or $(SOAK_SECONDS),3600)

services-down: ## stop servers that an interrupted run has left
	@for set in '' demo test bench; do PGOUTBOX_SERVICES_SET=$$set dev/services down; done

build-tools:
	@dev/services install build
