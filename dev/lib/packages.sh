# Debian packages: asked for by each service, installed in one go.
# shellcheck shell=bash

MISSING=()

build_packages() {
    local package
    for package in gcc g++ make pkg-config libssl-dev zlib1g-dev procps iproute2; do
        want_package "$package"
    done
}

build_install() { :; }

want_package() {
    local package=$1 state
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || state=
    [[ $state == installed ]] || MISSING+=("$package")
}

# want_command PACKAGE COMMAND...: the package, unless the command succeeds.
want_command() {
    local package=$1
    shift
    "$@" >/dev/null 2>&1 || MISSING+=("$package")
}

install_packages() {
    ((${#MISSING[@]})) || return 0
    command -v apt-get >/dev/null || die "missing, and there is no apt-get to install it: ${MISSING[*]} (Debian's names)"
    is_root || die "missing packages. Install them, then try again: sudo apt-get install --no-install-recommends ${MISSING[*]}"
    say "installing ${MISSING[*]} …"
    quietly "apt-get update" apt-get update -q
    quietly "apt-get install ${MISSING[*]}" without_system_services \
        env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 \
        apt-get install -q -y --no-install-recommends -o DPkg::Lock::Timeout=300 "${MISSING[@]}"
    MISSING=()
}

# Packages of servers start a system service, and PostgreSQL's creates a system cluster: neither may happen.
without_system_services() (
    local policy=/usr/sbin/policy-rc.d clusters=/etc/postgresql-common/createcluster.d
    trap 'rm -f "$clusters/pgoutbox.conf"' EXIT
    mkdir -p "$clusters"
    echo 'create_main_cluster = false' >"$clusters/pgoutbox.conf"
    if [[ ! -e $policy ]]; then
        trap 'rm -f "$clusters/pgoutbox.conf" "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
    fi
    "$@"
)
