# Directories, messages, and who the servers run as.
# shellcheck shell=bash

REPOSITORY=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly REPOSITORY

say() { printf '%s\n' "$*"; }

# The message says what is wrong and what to do about it; nothing follows it.
die() {
    printf 'dev/services: %s\n' "$*" >&2
    exit 1
}

# Runs a command that is only of interest when it fails: then the end of its output is shown and the script ends.
quietly() {
    local what=$1 log result
    shift
    log=$(mktemp)
    # Not as the condition of an `if`: `set -e` would be off in all that is called.
    set +e
    (set -e && "$@") >"$log" 2>&1 </dev/null
    result=$?
    set -e
    ((result == 0)) || tail -n 15 "$log" >&2
    rm -f "$log"
    ((result == 0)) || die "$what failed, see above. Nothing is left half done: the same command may be given again."
}

# Quoted only where it must be, so that a program can read these lines too.
export_line() {
    local name=$1 value=$2
    [[ $value =~ ^[A-Za-z0-9_./:@,=+%-]*$ ]] || value=\'${value//\'/"'\\''"}\'
    printf 'export %s=%s\n' "$name" "$value"
}

# Other calls of this script with the same servers wait. The servers must not inherit the lock: `launch` closes it.
lock_state() {
    writable_directory "$STATE" PGOUTBOX_SERVICES_DIR
    exec 8>"$STATE/lock"
    flock -w 600 8 || die "another dev/services has worked on $STATE for ten minutes: stop it (fuser $STATE/lock)"
}

# install_once WHAT DIRECTORY COMMAND: the command creates the directory of $DIST as its last step. One at a time: state
# directories may share $DIST.
install_once() {
    local what=$1 dir=$2 command=$3
    [[ -d $dir ]] && return
    writable_directory "$DIST" PGOUTBOX_SERVICES_DIST
    exec 9>"$DIST/lock"
    flock -w 600 9 || die "another dev/services has installed to $DIST for ten minutes: stop it (fuser $DIST/lock)"
    if [[ ! -d $dir ]]; then
        say "installing $what …"
        quietly "the download of $what" "$command"
    fi
    exec 9>&-
}

writable_directory() {
    local dir=$1 variable=$2
    if mkdir -p "$dir" 2>/dev/null && [[ -w $dir ]]; then return; fi
    die "cannot write to $dir: set $variable to a directory of your own"
}

# Sets STATE and DIST. A set of a name has a state of its own in the common directory, and shares what is unpacked there.
find_directories() {
    local root
    root=$(default_directory)
    STATE=$(realpath -ms -- "${PGOUTBOX_SERVICES_DIR:-$root${PGOUTBOX_SERVICES_SET:+/$PGOUTBOX_SERVICES_SET}}")
    DIST=$(realpath -ms -- "${PGOUTBOX_SERVICES_DIST:-${PGOUTBOX_SERVICES_DIR:-$root}/dist}")
    readonly STATE DIST
}

# The repository's `.services`; or one below /var/tmp where the repository is closed to the accounts that root's servers
# run as (a clone in /root).
default_directory() {
    local fallback
    if ! is_root || as nobody test -x "$REPOSITORY" 2>/dev/null; then
        echo "$REPOSITORY/.services"
        return
    fi
    fallback=/var/tmp/pgoutbox-$(cksum <<<"$REPOSITORY" | cut -d ' ' -f 1)
    [[ -d $fallback ]] || mkdir -m 755 "$fallback"
    [[ -O $fallback ]] || die "$fallback belongs to somebody else: set PGOUTBOX_SERVICES_DIR to a directory of your own"
    echo "$fallback"
}

is_root() { ((EUID == 0)); }

# Root's servers run as an account without rights; everybody else's as themselves.
server_account() {
    local account=$1
    if is_root; then echo "$account"; else id -un; fi
}

# Puts into AS what a command must be preceded by to run as the account.
set_as() {
    AS=()
    if is_root; then AS=(setpriv --reuid="$(id -u "$1")" --regid="$(id -g "$1")" --init-groups --); fi
}

# as ACCOUNT COMMAND...: in a directory that every account can enter.
as() (
    set_as "$1"
    shift
    cd /
    exec "${AS[@]}" "$@"
)

# A directory that the account owns. Its parents must let the account through.
own_directory() {
    local account=$1 dir=$2 mode=${3:-755}
    mkdir -p "$dir"
    chmod "$mode" "$dir"
    if is_root; then chown "$account:" "$dir"; fi
    check_passage "$account" "$dir"
}

check_passage() {
    local account=$1 path=$2
    as "$account" test -x "$path" && return
    die "the account '$account', which root's servers run as, cannot enter $path: a directory above it is closed." \
        "Set PGOUTBOX_SERVICES_DIR and PGOUTBOX_SERVICES_DIST to open directories, as in /var/tmp, or run as an ordinary user."
}
