# What the demo says, and the processes it must not leave behind.
# shellcheck shell=bash

readonly STOP_SECONDS=10

# The demo's last line, whatever ends it.
VERDICT='demo failed: the script ended early, see above'

say() { printf '%s\n' "$*"; }

heading() { printf '\n%s\n' "$*"; }

fail() {
    VERDICT="demo failed: $*"
    exit 1
}

# fail_with_log FILE WHY: the end of the file first.
fail_with_log() {
    say "  the end of $1:"
    tail -n 15 "$1" | sed 's/^/    /'
    fail "$2"
}

interrupted() {
    VERDICT='demo failed: interrupted'
    exit "$1"
}

# The verdict comes after all that stopping has to say. A second Ctrl-C must not leave servers behind.
clean_up() {
    local code=$? pid
    trap '' INT TERM
    heading 'Stopping what still runs'
    for pid in "${WRITER_PIDS[@]}" "$RELAY_PID" "$ORDERS_PID" "$PAYMENTS_PID"; do
        stop_process "$pid"
    done
    services down | indent || code=1
    say
    say "$VERDICT"
    exit "$code"
}

stop_process() {
    local pid=$1
    [[ $pid ]] || return 0
    kill -TERM "$pid" 2>/dev/null || true
    end_within "$STOP_SECONDS" "$pid" || kill -KILL "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
}

# end_within SECONDS PID: whether it ended.
end_within() {
    local deadline=$((EPOCHSECONDS + $1))
    while kill -0 "$2" 2>/dev/null; do
        ((EPOCHSECONDS < deadline)) || return 1
        sleep 0.1
    done
}

indent() { sed -u 's/^/  /'; }

free_port() {
    local port attempt
    for ((attempt = 0; attempt < 100; attempt++)); do
        port=$((30000 + RANDOM % 2000))
        if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            echo "$port"
            return
        fi
    done
    return 1
}
