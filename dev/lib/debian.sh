# Packages of other Debian releases than the machine's, fetched from its own mirror and never installed.
# shellcheck shell=bash

readonly DEBIAN_KEYS=/usr/share/keyrings/debian-archive-keyring.gpg

# debian_packages SUITE PART PACKAGE...: fetches them to PART/debs with an apt of its own, whose state is in PART. The
# machine's settings (proxies, keys) hold; its sources, its lists and what hooks make of them do not.
debian_packages() (
    local suite=$1 part=$2 mirror
    shift 2
    mirror=${PGOUTBOX_DEBIAN_MIRROR:-$(debian_mirror)}
    [[ $mirror ]] || die "apt's sources name no Debian mirror: set PGOUTBOX_DEBIAN_MIRROR to the address of one"
    mkdir -p "$part"/apt/{lists,cache}/partial "$part/apt/cache/archives/partial"
    touch "$part/apt/status"
    printf '%s\n' "Types: deb" "URIs: $mirror" "Suites: $suite" "Components: main" "Signed-By: $DEBIAN_KEYS" \
        "Targets: Packages" >"$part/apt/debian.sources"
    cat >"$part/apt/apt.conf" <<CONF
#clear APT::Update;
#clear DPkg;
Dir::Etc::SourceList "$part/apt/debian.sources";
Dir::Etc::SourceParts "/dev/null";
Dir::State "$part/apt";
Dir::State::Lists "$part/apt/lists";
Dir::State::Status "$part/apt/status";
Dir::Cache "$part/apt/cache";
CONF
    cd "$part/debs" || exit
    apt-get -q -c "$part/apt/apt.conf" -o APT::Update::Error-Mode=any update
    apt-get -q -c "$part/apt/apt.conf" download "$@"
)

# debian_program SUITE PART PACKAGE PROGRAM NAME: the program of a package becomes PART/home/NAME, a script that runs it
# with a loader and a C library of its own, since the machine's may be too old. What else it needs is in PART/unpacked.
debian_program() {
    local suite=$1 part=$2 package=$3 program=$4 name=$5 deb
    rm -rf "$part"
    mkdir -p "$part/debs" "$part/unpacked" "$part/home/lib"
    debian_packages "$suite" "$part" "$package" libc6
    for deb in "$part"/debs/*.deb; do
        dpkg-deb -x "$deb" "$part/unpacked"
    done
    cp -a "$part"/unpacked/lib/*-linux-gnu*/*.so* "$part/home/lib/"
    mv "$part/unpacked$program" "$part/home/$name.elf"
    cat >"$part/home/$name" <<SCRIPT
#!/bin/sh
home=\${0%/*}
exec "\$home"/lib/ld-linux-*.so.* --library-path "\$home/lib" "\$home/$name.elf" "\$@"
SCRIPT
    chmod 755 "$part/home/$name"
    chmod -R a+rX "$part/home"
}

# The mirror that the machine itself uses: it has every release. Its lists need not have been fetched yet.
debian_mirror() {
    local mirrors
    mirrors=$(apt-get update --print-uris | sed -n "s|^'\(.*/debian\)/*dists/[a-z]*/InRelease'.*|\1|p")
    echo "${mirrors%%$'\n'*}"
}
