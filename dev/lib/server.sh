# Servers: processes of ours, each with a directory in the state directory that holds
#   pid      of the process, valid only while that process names the directory on its command line
#   *.port   the ports it listens on: kept over restarts while nobody else takes them
#   version  what `status` shows
#   log      its standard output and error since the last start
# shellcheck shell=bash

readonly START_SECONDS=60 STOP_SECONDS=30

# Prints the pid of the running server. A pid file can outlive its process, and the number can be somebody else's by now.
server_pid() {
    local dir=$STATE/$1 pid
    pid=$(cat "$dir/pid" 2>/dev/null) && [[ $pid ]] || return 1
    # Every server gets its directory as an argument of its own, or as the value of one (`-Dname=DIR`).
    grep -qszE -e "(^|=)$(quote_regex "$dir")(/|\$)" "/proc/$pid/cmdline" || return 1
    echo "$pid"
}

quote_regex() { printf '%s' "$1" | sed 's/[][\.*^$+?(){}|]/\\&/g'; }

server_port() { cat "$STATE/$1/${2:-main}.port"; }

# Keeps the port of the last start, or picks a new one if that is taken by now.
assign_port() {
    local file=$STATE/$1/${2:-main}.port port attempt
    if [[ -s $file ]] && port_is_free "$(<"$file")"; then return; fi
    for ((attempt = 0; attempt < 100; attempt++)); do
        port=$((20000 + (RANDOM * 32768 + RANDOM) % 10000))
        if port_is_free "$port" && ! grep -qsx "$port" "$STATE"/*/*.port; then
            echo "$port" >"$file"
            return
        fi
    done
    die "found no free port between 20000 and 29999 in 100 attempts: what listens there? (ss -ltn)"
}

port_is_free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# start_server NAME ACCOUNT READY COMMAND...: READY is a function that is called with NAME until it succeeds.
start_server() {
    local name=$1 account=$2 ready=$3 dir=$STATE/$1 begin
    shift 3
    printf 'starting %s …' "$name"
    begin=$(now_ms)
    launch "$dir" "$account" "$@"
    until "$ready" "$name" >/dev/null 2>&1; do
        # Twice: a process that is becoming another program has no command line for a moment.
        if ! server_pid "$name" >/dev/null && sleep 0.1 && ! server_pid "$name" >/dev/null; then
            start_failed "$name" "$name ended while it started"
        elif (($(now_ms) - begin > START_SECONDS * 1000)); then
            stop_server "$name"
            start_failed "$name" "$name was not ready after $START_SECONDS s"
        fi
        sleep 0.1
    done
    printf ' ready after %s s\n' "$(seconds $(($(now_ms) - begin)))"
}

# In a session of its own, so that neither the caller's Ctrl-C nor its end reaches the server, and none of the
# caller's pipes is held open. The inner shell writes its pid before it becomes the server.
launch() (
    local dir=$1 account=$2
    shift 2
    rm -f "$dir/pid"
    cd "$dir" || exit
    set_as "$account"
    # shellcheck disable=SC2016 # expanded by the inner shell
    setsid bash -c 'echo $$ >"$0/pid" && exec "$@"' "$dir" "${AS[@]}" "$@" </dev/null >"$dir/log" 2>&1 8>&- &
    while [[ ! -s $dir/pid ]] && kill -0 $! 2>/dev/null; do sleep 0.01; done
)

start_failed() {
    local name=$1 why=$2 log=$STATE/$1/log
    printf '\n'
    tail -n 15 "$log" >&2
    rm -f "$STATE/$name/pid"
    if grep -qi 'address already in use' "$log"; then
        die "$name: another program took its port in the meantime. Run 'dev/services up' again: it picks another one."
    fi
    die "$why. Above is the end of $log. If its data is damaged, delete $STATE/$name and run 'dev/services up' again."
}

# Ends the server in an orderly way, or by force if that takes too long.
stop_server() {
    local name=$1 pid begin signal
    if pid=$(server_pid "$name"); then
        begin=$(now_ms)
        printf 'stopping %s …' "$name"
        signal=$(stop_signal "$name")
        kill "-$signal" "$pid" 2>/dev/null || true
        while server_pid "$name" >/dev/null; do
            if [[ $signal != KILL ]] && (($(now_ms) - begin > STOP_SECONDS * 1000)); then
                signal=KILL
                kill -KILL "$pid" 2>/dev/null || true
            fi
            sleep 0.1
        done
        printf ' stopped after %s s%s\n' "$(seconds $(($(now_ms) - begin)))" "$([[ $signal != KILL ]] || echo ', killed')"
    fi
    rm -f "$STATE/$name/pid"
}

# PostgreSQL's SIGTERM waits for all clients to leave; SIGINT ends their sessions.
stop_signal() { if [[ $1 == postgres* ]]; then echo INT; else echo TERM; fi; }

print_server() {
    local name=$1 pid version
    version=$(cat "$STATE/$name/version" 2>/dev/null) || version=unknown
    if pid=$(server_pid "$name"); then
        printf '%-16s running  pid %-8s port %-6s %s\n' "$name" "$pid" "$(server_port "$name")" "$version"
    else
        printf '%-16s stopped  %s\n' "$name" "$version"
        return 1
    fi
}

now_ms() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }

seconds() { printf '%d.%d' $(($1 / 1000)) $(($1 % 1000 / 100)); }
