# The relay under demonstration, and what it says of itself.
# shellcheck shell=bash

readonly RELAY=$REPOSITORY/target/release/pgoutbox CONNECTOR=connectors/shop.yaml
readonly RELAY_START_SECONDS=20 RELAY_STOP_SECONDS=30
RELAY_PID=

# pgoutbox COMMAND...: shown as a user types it, and run. What is private to the demo comes from the environment, but for
# the administrator's URL.
pgoutbox() {
    say "  \$ pgoutbox ${*/"$SHOP_ADMIN_URL"/"\$ADMIN_URL"}"
    "$RELAY" "$@" 2>"$DIR/$1.log" | indent ||
        fail_with_log "$DIR/$1.log" "pgoutbox $1 ended with exit code ${PIPESTATUS[0]}"
}

start_relay() {
    say "  \$ pgoutbox run -c $CONNECTOR"
    "$RELAY" run -c "$CONNECTOR" >"$DIR/relay.log" 2>&1 7>&- &
    RELAY_PID=$!
    local begin=$EPOCHSECONDS
    until http_get /readyz | grep -q '^HTTP/1\.[01] 200'; do
        require_relay
        ((EPOCHSECONDS - begin < RELAY_START_SECONDS)) ||
            fail_with_log "$DIR/relay.log" "the relay was not ready after $RELAY_START_SECONDS s"
        sleep 0.1
    done
}

require_relay() {
    local code=0
    if kill -0 "$RELAY_PID" 2>/dev/null; then return; fi
    wait "$RELAY_PID" || code=$?
    RELAY_PID=
    fail_with_log "$DIR/relay.log" "the relay ended by itself, exit code $code"
}

# Asks it to stop, as a supervisor does, and holds it to exit code 0.
stop_relay() {
    local code=0
    kill -TERM "$RELAY_PID" 2>/dev/null || require_relay
    end_within "$RELAY_STOP_SECONDS" "$RELAY_PID" ||
        fail_with_log "$DIR/relay.log" "the relay did not stop within $RELAY_STOP_SECONDS s of SIGTERM"
    wait "$RELAY_PID" || code=$?
    RELAY_PID=
    ((code == 0)) || fail_with_log "$DIR/relay.log" "the relay ended with exit code $code after SIGTERM"
}

# Prints a metric's value, the sum of all its labels; nothing if there is none.
metric() {
    http_get /metrics | tr -d '\r' | awk -v name="$1" '$1 ~ "^" name "([{]|$)" { sum += $NF; found = 1 }
        END { if (found) printf "%.0f\n", sum }'
}

http_get() {
    (
        exec 3<>"/dev/tcp/${HTTP_LISTEN%:*}/${HTTP_LISTEN##*:}" || exit
        printf 'GET %s HTTP/1.0\r\nHost: %s\r\n\r\n' "$1" "$HTTP_LISTEN" >&3
        timeout 2 cat <&3
    ) 2>/dev/null
}
