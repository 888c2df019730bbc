# Alertmanager, which tests of the relay's alerts start for themselves: from Debian 12's package, unpacked as RabbitMQ's
# are, with the C library it was built for. Nothing of it runs but in those tests.
# shellcheck shell=bash

readonly ALERTMANAGER_VERSION=0.25
readonly ALERTMANAGER_SHARE=/usr/share/prometheus/alertmanager
readonly ALERTMANAGER_HOME=$DIST/alertmanager-$ALERTMANAGER_VERSION

alertmanager_servers() { :; }
alertmanager_up() { :; }

alertmanager_packages() {
    [[ -d $ALERTMANAGER_HOME ]] && return
    command -v apt-get >/dev/null || die "Alertmanager comes from Debian's packages, and there is no apt-get to fetch them"
    want_command debian-archive-keyring test -r "$DEBIAN_KEYS"
}

alertmanager_install() {
    install_once "Alertmanager $ALERTMANAGER_VERSION" "$ALERTMANAGER_HOME" alertmanager_download
}

# HOME gets the script `alertmanager`, the program, its C library and its templates.
alertmanager_download() (
    local part=$DIST/.alertmanager.part here
    trap 'rm -rf "$part"' EXIT
    debian_program bookworm "$part" prometheus-alertmanager /usr/bin/prometheus-alertmanager alertmanager
    mv "$part/unpacked$ALERTMANAGER_SHARE"/*.tmpl "$part/home/"
    # Debian's build has their place as a constant: one of the same length means the directory it runs in.
    here=.$(printf '%*s' $((${#ALERTMANAGER_SHARE} - 1)) '' | tr ' ' /)
    LC_ALL=C sed -i "s|$ALERTMANAGER_SHARE|$here|g" "$part/home/alertmanager.elf"
    # shellcheck disable=SC2016 # for the script to expand
    sed -i '2a cd "$home" || exit' "$part/home/alertmanager"
    "$part/home/alertmanager" --version
    chmod -R a+rX "$part/home"
    mv "$part/home" "$ALERTMANAGER_HOME"
)

alertmanager_env() {
    if [[ -d $ALERTMANAGER_HOME ]]; then export_line ALERTMANAGER "$ALERTMANAGER_HOME/alertmanager"; fi
}
