# The relay in a small image: docker build -t pgoutbox .

FROM rust:1-slim-bookworm AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc g++ make pkg-config libssl-dev zlib1g-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
# What cargo downloads and compiles outlives a change of the source; the binary must leave the cache to reach the image.
RUN --mount=type=cache,id=pgoutbox-registry,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,id=pgoutbox-target,target=/src/target,sharing=locked \
    cargo build --release --locked --bin pgoutbox \
    && cp target/release/pgoutbox /usr/local/bin/pgoutbox

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates libssl3 zlib1g \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin pgoutbox
COPY --from=build /usr/local/bin/pgoutbox /usr/local/bin/pgoutbox
# The number, so that Kubernetes' runAsNonRoot can tell.
USER 10001
EXPOSE 7432
ENTRYPOINT ["pgoutbox"]
CMD ["run", "-c", "/etc/pgoutbox/pgoutbox.yaml"]
