# The application: psql sessions that change the shop's tables and write events in the same transactions.
# shellcheck shell=bash

readonly WRITERS=2
readonly ACTIONS=(place_order place_order place_order amend_order amend_order amend_order pay_order pay_order settle_payment)
WRITER_PIDS=()

start_writers() {
    local n
    for ((n = 1; n <= WRITERS; n++)); do
        shop_psql -f <(exec 7>&- && transactions "$SECONDS_TO_RUN") >"$DIR/writer-$n.out" 2>"$DIR/writer-$n.log" 7>&- &
        WRITER_PIDS+=($!)
    done
}

# What a session is told, for so many seconds. psql takes it as fast as it can, so the pauses set the pace.
transactions() {
    local end=$((EPOCHSECONDS + $1)) n=0
    echo '\set ON_ERROR_STOP on'
    while ((EPOCHSECONDS < end)); do
        one_transaction
        ((++n % 1000)) || batch_transaction
        ((n % 10)) || sleep 0.05
    done
}

# Seven in ten commit; the others are rolled back, or have a part rolled back. psql prints an event's id and what becomes
# of it, and what it prints does not roll back: that is how ids which no table holds are known afterwards.
one_transaction() {
    local step="id FROM ${ACTIONS[RANDOM % ${#ACTIONS[@]}]}() AS id;"
    case $((RANDOM % 10)) in
        0 | 1) echo "BEGIN; SELECT 'rolled back', $step ROLLBACK;" ;;
        2) echo "BEGIN; SELECT 'kept', $step SAVEPOINT s; SELECT 'rolled back', $step ROLLBACK TO s; COMMIT;" ;;
        *) echo "BEGIN; SELECT 'kept', $step COMMIT;" ;;
    esac
}

batch_transaction() {
    echo "BEGIN; SELECT 'kept', id FROM generate_series(1, 500), place_order() AS id; COMMIT;"
}

writers_are_done() {
    local pid
    for pid in "${WRITER_PIDS[@]}"; do
        if kill -0 "$pid" 2>/dev/null; then return 1; fi
    done
}

# Fails the demo if a session ended with an error.
finish_writers() {
    local n
    for ((n = 1; n <= WRITERS; n++)); do
        wait "${WRITER_PIDS[n - 1]}" || fail_with_log "$DIR/writer-$n.log" 'a writer ended with an error'
    done
    WRITER_PIDS=()
    sed -n 's/^rolled back|//p' "$DIR"/writer-*.out >"$DIR/rolled-back.ids"
}

written() { shop_psql -c 'SELECT count(*) FROM outbox'; }
