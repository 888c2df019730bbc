# Apache Kafka, as jars from Maven Central: `kafka` is one broker, `kafka2` a cluster of two.
# shellcheck shell=bash

readonly KAFKA_VERSION=4.4.0 KAFKA_SCALA=2.13 KAFKA_LOG4J=2.25.5 KAFKA_JAVA=17
readonly KAFKA_HOME=$DIST/kafka-$KAFKA_VERSION

kafka_servers() { echo kafka; }
kafka2_servers() { echo kafka2-1 kafka2-2; }

kafka_packages() {
    want_command "openjdk-$KAFKA_JAVA-jre-headless" find_java
    [[ -d $KAFKA_HOME ]] || want_command maven command -v mvn
}
kafka2_packages() { kafka_packages; }

kafka_install() { install_once "Kafka $KAFKA_VERSION" "$KAFKA_HOME" kafka_download; }
kafka2_install() { kafka_install; }

# Prints the path of a Java that is new enough.
find_java() {
    local java
    for java in "${JAVA_HOME:-/nowhere}/bin/java" "$(command -v java)" /usr/lib/jvm/*/bin/java; do
        if [[ -x $java ]] && (($(java_major "$java") >= KAFKA_JAVA)); then
            echo "$java"
            return
        fi
    done
    return 1
}

java_major() { "$1" -version 2>&1 | awk -F'"' '/ version "/ { split($2, v, /[.-]/); major = v[1] } END { print major + 0 }'; }

kafka_download() (
    local part=$DIST/.kafka.part
    trap 'rm -rf "$part"' EXIT
    rm -rf "$part"
    mkdir "$part" "$part/conf"
    kafka_pom >"$part/pom.xml"
    kafka_log4j >"$part/conf/log4j2.properties"
    cd "$part" || exit
    mvn -q -B -C -Dstyle.color=never org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory=libs
    ls "libs/kafka_$KAFKA_SCALA-$KAFKA_VERSION.jar" "libs/kafka-tools-$KAFKA_VERSION.jar"
    chmod -R a+rX .
    mv "$part" "$KAFKA_HOME"
)

kafka_pom() {
    cat <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>pgoutbox.dev</groupId>
  <artifactId>kafka</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_$KAFKA_SCALA</artifactId>
      <version>$KAFKA_VERSION</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka-tools</artifactId>
      <version>$KAFKA_VERSION</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId>
      <artifactId>log4j-slf4j-impl</artifactId>
      <version>$KAFKA_LOG4J</version>
    </dependency>
  </dependencies>
</project>
POM
}

# Warnings, and the one line that says that a broker is ready.
kafka_log4j() {
    cat <<'CONF'
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
logger.ready.name = kafka.server.KafkaRaftServer
logger.ready.level = info
CONF
}

kafka_up() {
    kafka_start kafka 1 kafka "broker,controller"
}

# The first node is the controller too, so the second is the one to kill in a test of fail-over.
kafka2_up() {
    kafka_start kafka2-1 1 kafka2-1 "broker,controller"
    kafka_start kafka2-2 2 kafka2-1 "broker"
}

# kafka_start SERVER NODE CONTROLLER ROLES: CONTROLLER is the server of the cluster that is its controller.
kafka_start() {
    local server=$1 node=$2 controller=$3 roles=$4 dir=$STATE/$1 account java
    account=$(server_account nobody)
    java=$(find_java) || die "found no Java of version $KAFKA_JAVA or newer: set JAVA_HOME"
    if server_pid "$server" >/dev/null; then
        say "$server is already running"
        return
    fi
    own_directory "$account" "$dir"
    check_passage "$account" "$KAFKA_HOME/libs"
    assign_port "$server"
    [[ $roles == broker ]] || assign_port "$server" controller
    kafka_properties "$@" >"$dir/server.properties"
    kafka_format "$server" "$controller" "$account" "$java"
    echo "Kafka $KAFKA_VERSION" >"$dir/version"
    start_server "$server" "$account" kafka_ready "$java" -Dpgoutbox.server="$dir" -Xms128m -Xmx512m \
        -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData \
        -cp "$KAFKA_HOME/conf:$KAFKA_HOME/libs/*" kafka.Kafka "$dir/server.properties"
}

kafka_properties() {
    local server=$1 node=$2 controller=$3 roles=$4 copies=1 listeners
    listeners=PLAINTEXT://127.0.0.1:$(server_port "$server")
    [[ $controller == kafka ]] || copies=2
    cat <<CONF
process.roles=$roles
node.id=$node
controller.quorum.bootstrap.servers=127.0.0.1:$(server_port "$controller" controller)
controller.listener.names=CONTROLLER
listeners=$listeners$([[ $roles == broker ]] || echo ",CONTROLLER://127.0.0.1:$(server_port "$server" controller)")
advertised.listeners=$listeners
inter.broker.listener.name=PLAINTEXT
log.dirs=$STATE/$server/data

auto.create.topics.enable=true
num.partitions=6
default.replication.factor=$copies
min.insync.replicas=1
log.retention.ms=-1

# Kafka's own topics: as many copies as there are brokers, few partitions, no waiting for members of a group.
offsets.topic.replication.factor=$copies
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=$copies
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=$copies
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=4
group.initial.rebalance.delay.ms=0
CONF
}

# The note `formatted` comes last: without it the data directory is of a format that was interrupted.
kafka_format() {
    local server=$1 controller=$2 account=$3 java=$4 dir=$STATE/$1 standalone=()
    [[ -e $dir/formatted ]] && return
    say "creating $server …"
    rm -rf "$dir/data"
    own_directory "$account" "$dir/data"
    if [[ $server == "$controller" ]]; then
        standalone=(--standalone)
        kafka_cluster_id >"$dir/cluster.id"
    fi
    quietly "the format of $server" as "$account" "$java" -XX:TieredStopAtLevel=1 -XX:-UsePerfData \
        -cp "$KAFKA_HOME/conf:$KAFKA_HOME/libs/*" kafka.tools.StorageTool format "${standalone[@]}" \
        --cluster-id="$(<"$STATE/$controller/cluster.id")" -c "$dir/server.properties"
    touch "$dir/formatted"
}

# A UUID in Kafka's spelling: base64 for addresses, and never with a dash in front.
kafka_cluster_id() { head -c 16 /dev/urandom | base64 | tr '+/' '-_' | sed 's/=*$//; s/^-/A/'; }

kafka_ready() { grep -q 'Kafka Server started' "$STATE/$1/log"; }

kafka_env() {
    local java
    if java=$(find_java); then export_line JAVA "$java"; fi
    if [[ -d $KAFKA_HOME ]]; then
        export_line KAFKA_LIBS "$KAFKA_HOME/libs"
        export_line KAFKA_CONF "$KAFKA_HOME/conf"
    fi
    kafka_brokers_env KAFKA_BROKERS kafka
}

kafka2_env() { kafka_brokers_env KAFKA2_BROKERS kafka2-1 kafka2-2; }

kafka_brokers_env() {
    local variable=$1 brokers=() server
    shift
    for server in "$@"; do
        if server_pid "$server" >/dev/null; then brokers+=("127.0.0.1:$(server_port "$server")"); fi
    done
    ((${#brokers[@]})) || return 0
    export_line "$variable" "$(IFS=, && echo "${brokers[*]}")"
}
