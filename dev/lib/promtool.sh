# promtool, which judges alerting rules and expressions: from Debian 12's package of Prometheus, unpacked as RabbitMQ's
# are. It is a program, not a server: there is nothing to start.
# shellcheck shell=bash

readonly PROMTOOL_VERSION=2.42
readonly PROMTOOL_HOME=$DIST/promtool-$PROMTOOL_VERSION

promtool_servers() { :; }
promtool_up() { :; }

promtool_packages() {
    [[ -d $PROMTOOL_HOME ]] && return
    command -v apt-get >/dev/null || die "promtool comes from Debian's packages, and there is no apt-get to fetch them"
    want_command debian-archive-keyring test -r "$DEBIAN_KEYS"
}

promtool_install() { install_once "promtool $PROMTOOL_VERSION" "$PROMTOOL_HOME" promtool_download; }

# With a loader and a C library of its own, since the machine's may be too old.
promtool_download() (
    local part=$DIST/.promtool.part deb
    trap 'rm -rf "$part"' EXIT
    rm -rf "$part"
    mkdir -p "$part/debs" "$part/unpacked" "$part/home/lib"
    debian_packages bookworm "$part" prometheus libc6
    for deb in "$part"/debs/*.deb; do
        dpkg-deb -x "$deb" "$part/unpacked"
    done
    cp -a "$part"/unpacked/lib/*-linux-gnu*/*.so* "$part/home/lib/"
    mv "$part/unpacked/usr/bin/promtool" "$part/home/promtool.elf"
    cat >"$part/home/promtool" <<'SCRIPT'
#!/bin/sh
home=${0%/*}
exec "$home"/lib/ld-linux-*.so.* --library-path "$home/lib" "$home/promtool.elf" "$@"
SCRIPT
    chmod 755 "$part/home/promtool"
    "$part/home/promtool" --version
    chmod -R a+rX "$part/home"
    mv "$part/home" "$PROMTOOL_HOME"
)

promtool_env() { if [[ -d $PROMTOOL_HOME ]]; then export_line PROMTOOL "$PROMTOOL_HOME/promtool"; fi; }
