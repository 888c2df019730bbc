# RabbitMQ: the oldest version of use from Debian 12, the newest from Debian 13, each with the Erlang and the C library
# it was built for. Nothing is installed on the machine: packages are unpacked, and their programs run with their own
# loader, so neither a chroot nor a right is needed. One private epmd tells the nodes' ports to each other's tools.
# shellcheck shell=bash

readonly RABBITMQ_NEWEST=4.0 RABBITMQ_OLDEST=3.10
readonly RABBITMQ_NEWEST_HOME=$DIST/rabbitmq-$RABBITMQ_NEWEST RABBITMQ_OLDEST_HOME=$DIST/rabbitmq-$RABBITMQ_OLDEST
readonly RABBITMQ_NODE=$HERE/lib/rabbitmq-node RABBITMQ_EPMD=rabbitmq-epmd

# Erlang without what only its developers need, and the libraries that these link.
readonly RABBITMQ_PARTS=(rabbitmq-server
    erlang-{base,asn1,crypto,eldap,inets,mnesia,os-mon,parsetools,public-key,runtime-tools,ssl,syntax-tools,tools,xmerl}
    libc6 libcap2 libgcc-s1 libstdc++6 libsystemd0 libtinfo6 libzstd1 zlib1g)
readonly RABBITMQ_NEWEST_PARTS=(libssl3t64) RABBITMQ_OLDEST_PARTS=(libssl3 libgcrypt20 libgpg-error0 liblz4-1 liblzma5)

rabbitmq_servers() { echo "$RABBITMQ_EPMD" rabbitmq rabbitmq-oldest; }

rabbitmq_home() { if [[ $1 == rabbitmq-oldest ]]; then echo "$RABBITMQ_OLDEST_HOME"; else echo "$RABBITMQ_NEWEST_HOME"; fi; }

rabbitmq_packages() {
    want_command openssl command -v openssl
    [[ -d $RABBITMQ_NEWEST_HOME && -d $RABBITMQ_OLDEST_HOME ]] && return
    command -v apt-get >/dev/null || die "RabbitMQ comes from Debian's packages, and there is no apt-get to fetch them"
    want_command debian-archive-keyring test -r "$DEBIAN_KEYS"
}

rabbitmq_install() {
    install_once "RabbitMQ $RABBITMQ_OLDEST" "$RABBITMQ_OLDEST_HOME" rabbitmq_download_oldest
    install_once "RabbitMQ $RABBITMQ_NEWEST" "$RABBITMQ_NEWEST_HOME" rabbitmq_download_newest
}

rabbitmq_download_oldest() { rabbitmq_download bookworm "$RABBITMQ_OLDEST_HOME" "${RABBITMQ_OLDEST_PARTS[@]}"; }
rabbitmq_download_newest() { rabbitmq_download trixie "$RABBITMQ_NEWEST_HOME" "${RABBITMQ_NEWEST_PARTS[@]}"; }

# rabbitmq_download SUITE HOME PACKAGE...: HOME gets `erlang`, `rabbitmq`, `lib` and the file `version`.
rabbitmq_download() (
    local suite=$1 home=$2 part=$DIST/.rabbitmq.part deb
    shift 2
    trap 'rm -rf "$part"' EXIT
    rm -rf "$part"
    mkdir -p "$part/debs" "$part/unpacked" "$part/home/lib"
    debian_packages "$suite" "$part" "${RABBITMQ_PARTS[@]}" "$@"
    for deb in "$part"/debs/*.deb; do
        dpkg-deb -x "$deb" "$part/unpacked"
    done
    cp -a "$part"/unpacked/{,usr/}lib/*-linux-gnu*/*.so* "$part/home/lib/" 2>/dev/null || true
    mv "$part/unpacked/usr/lib/erlang" "$part/home/erlang"
    mv "$part"/unpacked/usr/lib/rabbitmq/lib/rabbitmq_server-* "$part/home/"
    mv "$part"/home/rabbitmq_server-* "$part/home/rabbitmq"
    dpkg-deb -f "$part"/debs/rabbitmq-server_*.deb Version >"$part/home/version"
    erlang_relocate "$part/home"
    "$part/home/erlang/bin/erl" -noshell -eval 'ok = crypto:start(), halt().'
    chmod -R a+rX "$part/home"
    mv "$part/home" "$home"
)

# Every program of HOME/erlang becomes a script that runs it with HOME's loader and libraries: the machine's may be too
# old, and the programs that Erlang starts (df, sh) must go on with the machine's. `erl` finds out where it is.
erlang_relocate() {
    local home=$1 file lib
    while read -r file; do
        is_program "$file" || continue
        lib=$(realpath --relative-to="${file%/*}" "$home/lib")
        mv "$file" "$file.elf"
        cat >"$file" <<SCRIPT
#!/bin/sh
lib=\${0%/*}/$lib
exec "\$lib"/ld-linux-*.so.* --library-path "\$lib" --argv0 "\$0" "\$0.elf" "\$@"
SCRIPT
        chmod 755 "$file"
    done < <(find "$home/erlang" -type f -perm -u+x ! -name '*.so')
    find "$home/erlang/bin" ! -type d ! -name '*.boot' -delete
    cat >"$home/erlang/bin/erl" <<'SCRIPT'
#!/bin/sh
ROOTDIR=$(cd "$(dirname "$0")/.." && pwd -P)
BINDIR=$(echo "$ROOTDIR"/erts-*/bin)
EMU=beam
PROGNAME=erl
export ROOTDIR BINDIR EMU PROGNAME
exec "$BINDIR/erlexec" "$@"
SCRIPT
    cat >"$home/erlang/bin/escript" <<'SCRIPT'
#!/bin/sh
bin=$(cd "$(dirname "$0")" && pwd -P)
ESCRIPT_EMULATOR=$bin/erl
export ESCRIPT_EMULATOR
exec "$bin"/../erts-*/bin/escript "$@"
SCRIPT
    chmod 755 "$home"/erlang/bin/{erl,escript}
}

is_program() { [[ -f $1 && -x $1 && $(head -c 4 "$1" | tr -d '\0') == $'\x7fELF' ]]; }

rabbitmq_up() {
    rabbitmq_start_epmd
    rabbitmq_start rabbitmq-oldest
    rabbitmq_start rabbitmq
}

rabbitmq_start_epmd() {
    local server=$RABBITMQ_EPMD dir=$STATE/$RABBITMQ_EPMD home=$RABBITMQ_NEWEST_HOME account
    account=$(server_account nobody)
    if server_pid "$server" >/dev/null; then
        say "$server is already running"
        return
    fi
    own_directory "$account" "$dir"
    check_passage "$account" "$home/erlang"
    assign_port "$server"
    echo "Erlang's port mapper" >"$dir/version"
    # Its wrapper would hide which server this is.
    start_server "$server" "$account" rabbitmq_epmd_ready "$home"/lib/ld-linux-*.so.* --library-path "$home/lib" \
        --argv0 "$dir/epmd" "$home"/erlang/erts-*/bin/epmd.elf -address 127.0.0.1 -port "$(server_port "$server")"
}

rabbitmq_epmd_ready() { ! port_is_free "$(server_port "$1")"; }

rabbitmq_start() {
    local server=$1 dir=$STATE/$1 account port
    account=$(server_account nobody)
    if server_pid "$server" >/dev/null; then
        say "$server is already running"
        return
    fi
    own_directory "$account" "$dir"
    check_passage "$account" "$(rabbitmq_home "$server")/rabbitmq"
    for port in main tls management node; do
        assign_port "$server" "$port"
    done
    rabbitmq_certificates "$account" "$dir"
    rabbitmq_configure "$server"
    echo "RabbitMQ $(<"$(rabbitmq_home "$server")/version")" >"$dir/version"
    start_server "$server" "$account" rabbitmq_ready "$dir/run" rabbitmq-server
}

rabbitmq_ready() { grep -q 'Server startup complete' "$STATE/$1/log"; }

# A private authority, and the server's certificate of it.
rabbitmq_certificates() {
    local account=$1 dir=$2/tls
    [[ -e $dir/server.pem ]] && return
    own_directory "$account" "$dir"
    quietly "the authority in $dir" as "$account" openssl req -x509 -newkey rsa:2048 -nodes -days 3650 \
        -subj "/CN=pgoutbox development" -keyout "$dir/ca.key" -out "$dir/ca.pem"
    quietly "the certificate in $dir" as "$account" openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj /CN=localhost \
        -addext "subjectAltName=DNS:localhost,IP:127.0.0.1" -addext basicConstraints=critical,CA:FALSE \
        -CA "$dir/ca.pem" -CAkey "$dir/ca.key" -keyout "$dir/server.key" -out "$dir/server.pem"
}

rabbitmq_configure() {
    local server=$1 dir=$STATE/$1
    install -m 755 "$RABBITMQ_NODE" "$dir/run"
    cat >"$dir/node.env" <<CONF
AMQP_HOME=$(printf %q "$(rabbitmq_home "$server")")
RABBITMQ_NODENAME=$server@localhost
RABBITMQ_DIST_PORT=$(server_port "$server" node)
ERL_EPMD_PORT=$(server_port "$RABBITMQ_EPMD")
CONF
    echo '[rabbitmq_management].' >"$dir/enabled_plugins"
    cat >"$dir/rabbitmq.conf" <<CONF
listeners.tcp.1 = 127.0.0.1:$(server_port "$server")
listeners.ssl.1 = 127.0.0.1:$(server_port "$server" tls)
ssl_options.cacertfile = $dir/tls/ca.pem
ssl_options.certfile = $dir/tls/server.pem
ssl_options.keyfile = $dir/tls/server.key
management.tcp.ip = 127.0.0.1
management.tcp.port = $(server_port "$server" management)

log.console = true
log.console.use_colors = off
log.file = false
disk_free_limit.absolute = 50MB
CONF
}

rabbitmq_env() {
    rabbitmq_server_env rabbitmq AMQP
    rabbitmq_server_env rabbitmq-oldest AMQP_OLDEST
    if server_pid "$RABBITMQ_EPMD" >/dev/null; then export_line AMQP_EPMD_PORT "$(server_port "$RABBITMQ_EPMD")"; fi
}

rabbitmq_server_env() {
    local server=$1 prefix=$2 home
    home=$(rabbitmq_home "$server")
    if [[ -d $home ]]; then export_line "${prefix}_HOME" "$home"; fi
    server_pid "$server" >/dev/null || return 0
    export_line "${prefix}_URL" "amqp://guest:guest@127.0.0.1:$(server_port "$server")/%2f"
    export_line "${prefix}_TLS_URL" "amqps://guest:guest@127.0.0.1:$(server_port "$server" tls)/%2f"
    export_line "${prefix}_CA_FILE" "$STATE/$server/tls/ca.pem"
    export_line "${prefix}_MANAGEMENT_URL" "http://127.0.0.1:$(server_port "$server" management)"
    export_line "${prefix}_NODE" "$STATE/$server/run"
}
