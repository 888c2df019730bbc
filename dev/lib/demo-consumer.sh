# The independent consumers: those that come with Kafka and with RabbitMQ. They share nothing with the relay but the
# brokers.
# shellcheck shell=bash

readonly CONSUMER_CLASS=org.apache.kafka.tools.consumer.ConsoleConsumer
# Topics that are created later are added without giving up those that it has.
readonly CONSUMER_ASSIGNOR=org.apache.kafka.clients.consumer.CooperativeStickyAssignor
readonly ORDERS_READ=$DIR/orders.tsv PAYMENTS_READ=$DIR/payments.tsv CONSUMER_START_SECONDS=60
ORDERS_PID=
PAYMENTS_PID=

start_consumers() {
    start_orders_consumer
    start_payments_consumer
}

# It reads all topics of the outbox from their beginning, those too that are created later. Its own log goes to stderr,
# so that stdout has records only.
start_orders_consumer() {
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
        --formatter-property null.literal=NULL >"$ORDERS_READ" 2>"$DIR/orders.log" 7>&- &
    ORDERS_PID=$!
}

# It has declared its queue once it consumes from it, and the relay's `check` looks for that.
start_payments_consumer() {
    local begin=$EPOCHSECONDS
    ERL_LIBS=$AMQP_HOME/rabbitmq/plugins "$AMQP_HOME/erlang/bin/escript" dev/lib/demo-consumer.escript \
        >"$PAYMENTS_READ" 2>"$DIR/payments.log" 7>&- &
    PAYMENTS_PID=$!
    until "$AMQP_NODE" rabbitmqctl -q list_consumers queue_name 2>/dev/null | grep -qx payments; do
        require_consumers
        ((EPOCHSECONDS - begin < CONSUMER_START_SECONDS)) ||
            fail_with_log "$DIR/payments.log" "nobody consumed from RabbitMQ after $CONSUMER_START_SECONDS s"
        sleep 0.2
    done
}

stop_consumers() {
    stop_process "$ORDERS_PID"
    stop_process "$PAYMENTS_PID"
    ORDERS_PID=
    PAYMENTS_PID=
}

consumed() { cat "$ORDERS_READ" "$PAYMENTS_READ" | wc -l; }

require_consumers() {
    kill -0 "$ORDERS_PID" 2>/dev/null || fail_with_log "$DIR/orders.log" "Kafka's consumer ended by itself"
    kill -0 "$PAYMENTS_PID" 2>/dev/null || fail_with_log "$DIR/payments.log" "RabbitMQ's consumer ended by itself"
}

# show_news COUNT: of what was read since the last time, the first so many of each broker for people, as broker, key, event
# type and value.
declare -A SHOWN=()
show_news() {
    local broker file now
    for broker in Kafka RabbitMQ; do
        file=$ORDERS_READ
        [[ $broker == Kafka ]] || file=$PAYMENTS_READ
        now=$(wc -l <"$file")
        # One program reads the file to its end: one that ended early would end its partner by a broken pipe.
        (($1 == 0 || now == ${SHOWN[$broker]:-0})) ||
            awk -F '\t' -v broker="$broker" -v from="${SHOWN[$broker]:-0}" -v most="$1" 'NR > from && NR <= from + most {
                type = $3
                sub(/.*eventType:/, "", type)
                sub(/,.*/, "", type)
                printf "          %-9s %-10s %-16s %s\n", broker, $4, type, $5
            }' "$file"
        SHOWN[$broker]=$now
    done
}
