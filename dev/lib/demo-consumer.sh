# The independent consumer: the one that comes with Kafka. It shares nothing with the relay but the broker.
# shellcheck shell=bash

readonly CONSUMER_CLASS=org.apache.kafka.tools.consumer.ConsoleConsumer
# Topics that are created later are added without giving up those that it has.
readonly CONSUMER_ASSIGNOR=org.apache.kafka.clients.consumer.CooperativeStickyAssignor
CONSUMER_PID=

# It reads all topics of the outbox from their beginning, those too that are created later. Its own log goes to stderr,
# so that stdout has records only.
start_consumer() {
    cat >"$DIR/consumer.properties" <<'CONF'
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
CONF
    "$JAVA" -Xms64m -Xmx192m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Dfile.encoding=UTF-8 \
        -Dstdout.encoding=UTF-8 -Dlog4j2.configurationFile="$DIR/consumer.properties" -cp "$KAFKA_LIBS/*" "$CONSUMER_CLASS" \
        --bootstrap-server "$KAFKA_BROKERS" --include 'outbox\.event\..*' --group demo --from-beginning \
        --command-property partition.assignment.strategy="$CONSUMER_ASSIGNOR" --command-property metadata.max.age.ms=500 \
        --formatter-property print.partition=true --formatter-property print.offset=true \
        --formatter-property print.headers=true --formatter-property print.key=true \
        --formatter-property null.literal=NULL >"$DIR/consumed.tsv" 2>"$DIR/consumer.log" 7>&- &
    CONSUMER_PID=$!
}

consumed() { wc -l <"$DIR/consumed.tsv"; }

require_consumer() {
    kill -0 "$CONSUMER_PID" 2>/dev/null || fail_with_log "$DIR/consumer.log" 'the consumer ended by itself'
}

# show_events AFTER LAST: those records for people, as key, event type and value.
show_events() {
    (($1 < $2)) || return 0
    sed -n "$(($1 + 1)),$2p; $2q" "$DIR/consumed.tsv" | awk -F '\t' '{
        type = $3
        sub(/.*eventType:/, "", type)
        sub(/,.*/, "", type)
        printf "          %-10s %-16s %s\n", $4, type, $5
    }'
}
