# promtool, which judges alerting rules and expressions: from Debian 12's package of Prometheus, unpacked. It is a program,
# not a server: there is nothing to start.
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

promtool_download() (
    local part=$DIST/.promtool.part
    trap 'rm -rf "$part"' EXIT
    debian_program bookworm "$part" prometheus /usr/bin/promtool promtool
    "$part/home/promtool" --version
    mv "$part/home" "$PROMTOOL_HOME"
)

promtool_env() { if [[ -d $PROMTOOL_HOME ]]; then export_line PROMTOOL "$PROMTOOL_HOME/promtool"; fi; }
