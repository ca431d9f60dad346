# Sourced, not run. Where downloads are kept, and one function per thing the tests need from outside the Rust workspace.
# Each function is a no-op when the thing is there, installs it when it is not and says so, and returns non-zero when
# it could not: the caller decides whether that fails the run or only that step.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# $FRAZIL_CACHE, else ~/.cache/frazil, else .cache in the clone: the last also serves where there is no home.
cache_dir() {
  local dir
  for dir in "${FRAZIL_CACHE:-}" "${HOME:+$HOME/.cache/frazil}" "$ROOT/.cache"; do
    if [ -n "$dir" ] && mkdir -p "$dir" 2>/dev/null && [ -w "$dir" ]; then
      printf '%s\n' "$dir"
      return 0
    fi
  done
  echo "no folder for downloads can be made: set FRAZIL_CACHE" >&2
  return 1
}

FRAZIL_CACHE=$(cache_dir) || return 1
export FRAZIL_CACHE
VENV=$FRAZIL_CACHE/venv
S3_VENV=$FRAZIL_CACHE/venv-s3
KAFKA_VERSION=$(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' "$ROOT/tests/services/pom.xml")
KAFKA_JARS=$FRAZIL_CACHE/kafka-$KAFKA_VERSION
FRAMING=$ROOT/tests/interop/framing
FRAMING_VENV=$FRAZIL_CACHE/venv-framing
GLUE_JARS=$FRAZIL_CACHE/glue-serde
SPARK=$ROOT/tests/interop/spark
SPARK_VENV=$FRAZIL_CACHE/venv-spark
SPARK_JARS=$FRAZIL_CACHE/spark-jars
REST_JARS=$FRAZIL_CACHE/rest-jars

say() { printf '%s\n' "$*" >&2; }

# apt_get PACKAGE...: only as root, and never asking.
apt_get() {
  if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    say "install by hand: $*"
    return 1
  fi
  say "installing by apt-get: $*"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" </dev/null >&2 ||
    { apt-get update -qq </dev/null >&2 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" </dev/null >&2; }
}

need_kcat() { command -v kcat >/dev/null || apt_get kcat; }

need_java() { command -v java >/dev/null || apt_get default-jre-headless; }

need_jdk() { command -v javac >/dev/null || apt_get default-jdk-headless; }

# The broker's jars, resolved once by Maven; nothing is fetched while the folder is whole.
need_kafka() {
  need_java || return 1
  [ -e "$KAFKA_JARS/.whole" ] && return 0
  command -v mvn >/dev/null || apt_get maven || return 1
  say "fetching Apache Kafka $KAFKA_VERSION with Maven into $KAFKA_JARS"
  rm -rf "$KAFKA_JARS"
  mvn -q -B -f "$ROOT/tests/services/pom.xml" dependency:copy-dependencies \
    -DoutputDirectory="$KAFKA_JARS" -DincludeScope=runtime </dev/null >&2 &&
    touch "$KAFKA_JARS/.whole"
}

# The Python packages of tests/interop, in a virtual environment that is made again when the pins change.
need_python() {
  local pins=$ROOT/tests/interop/requirements.txt
  cmp -s "$pins" "$VENV/.pins" && return 0
  say "installing tests/interop/requirements.txt into $VENV"
  # Without Debian's python3-venv package the module is there but can't make an environment that holds pip.
  rm -rf "$VENV"
  python3 -m venv "$VENV" >&2 || { rm -rf "$VENV" && apt_get python3-venv && python3 -m venv "$VENV" >&2; } || return 1
  "$VENV/bin/pip" install -q --disable-pip-version-check -r "$pins" </dev/null >&2 && cp "$pins" "$VENV/.pins"
}

# A service that speaks S3, in an environment of its own.
need_s3() {
  local pins=$ROOT/tests/services/s3-requirements.txt
  cmp -s "$pins" "$S3_VENV/.pins" && return 0
  say "installing tests/services/s3-requirements.txt into $S3_VENV"
  rm -rf "$S3_VENV"
  python3 -m venv "$S3_VENV" >&2 || { rm -rf "$S3_VENV" && apt_get python3-venv && python3 -m venv "$S3_VENV" >&2; } || return 1
  "$S3_VENV/bin/pip" install -q --disable-pip-version-check -r "$pins" </dev/null >&2 && cp "$pins" "$S3_VENV/.pins"
}

# Other people's serializers: AWS's as jars by Maven, Confluent's and protobuf's compiler in an environment of their own.
need_serializers() {
  local pins=$FRAMING/requirements.txt
  need_jdk || return 1
  if ! cmp -s "$FRAMING/pom.xml" "$GLUE_JARS/.pom"; then
    command -v mvn >/dev/null || apt_get maven || return 1
    say "fetching AWS's serializer for the Glue Schema Registry with Maven into $GLUE_JARS"
    rm -rf "$GLUE_JARS"
    mvn -q -B -f "$FRAMING/pom.xml" dependency:copy-dependencies -DoutputDirectory="$GLUE_JARS" -DincludeScope=runtime \
      </dev/null >&2 && cp "$FRAMING/pom.xml" "$GLUE_JARS/.pom" || return 1
  fi
  cmp -s "$pins" "$FRAMING_VENV/.pins" && return 0
  say "installing tests/interop/framing/requirements.txt into $FRAMING_VENV"
  rm -rf "$FRAMING_VENV"
  python3 -m venv "$FRAMING_VENV" >&2 || { rm -rf "$FRAMING_VENV" && apt_get python3-venv && python3 -m venv "$FRAMING_VENV" >&2; } || return 1
  "$FRAMING_VENV/bin/pip" install -q --disable-pip-version-check -r "$pins" </dev/null >&2 && cp "$pins" "$FRAMING_VENV/.pins"
}

# Apache Spark in an environment of its own, and Iceberg for it.
need_spark() {
  local pins=$SPARK/requirements.txt
  need_java || return 1
  if ! cmp -s "$SPARK/pom.xml" "$SPARK_JARS/.pom"; then
    command -v mvn >/dev/null || apt_get maven || return 1
    say "fetching Iceberg for Spark with Maven into $SPARK_JARS"
    rm -rf "$SPARK_JARS"
    mvn -q -B -f "$SPARK/pom.xml" dependency:copy-dependencies -DoutputDirectory="$SPARK_JARS" -DincludeScope=runtime \
      </dev/null >&2 && cp "$SPARK/pom.xml" "$SPARK_JARS/.pom" || return 1
  fi
  cmp -s "$pins" "$SPARK_VENV/.pins" && return 0
  say "installing tests/interop/spark/requirements.txt into $SPARK_VENV (400 MB)"
  rm -rf "$SPARK_VENV"
  python3 -m venv "$SPARK_VENV" >&2 || { rm -rf "$SPARK_VENV" && apt_get python3-venv && python3 -m venv "$SPARK_VENV" >&2; } || return 1
  "$SPARK_VENV/bin/pip" install -q --disable-pip-version-check -r "$pins" </dev/null >&2 && cp "$pins" "$SPARK_VENV/.pins"
}

# The jars of a folder, comma-separated.
jars_of() { find "$1" -name '*.jar' | paste -s -d , -; }

# served DIR PID SECONDS WHAT: waits until a service has written its endpoint into DIR, and sets ENDPOINT; ends it, with its log, where it does
# not.
served() {
  local dir=$1 pid=$2
  for _ in $(seq $((10 * $3))); do
    [ -e "$dir/endpoint" ] && ENDPOINT=$(cat "$dir/endpoint") && return 0
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  say "no $4; its log:"
  tail -n 20 "$dir/log" >&2
  end "$pid"
  return 1
}

end() {
  kill "$1" 2>/dev/null
  wait "$1" 2>/dev/null
  return 0
}

# start_s3 DIR: starts it on a free loopback port; sets S3_PID, which stop_s3 ends, and S3_ENDPOINT.
start_s3() {
  local dir=$1
  mkdir -p "$dir" && rm -f "$dir/endpoint" || return 1
  "$S3_VENV/bin/python" "$ROOT/tests/services/s3.py" "$dir/endpoint" </dev/null >"$dir/log" 2>&1 &
  S3_PID=$!
  served "$dir" "$S3_PID" 30 "S3 service" && S3_ENDPOINT=$ENDPOINT
}

stop_s3() { end "$S3_PID"; }

# Apache Iceberg's REST catalog, as its own tests have it.
need_rest() {
  need_java || return 1
  cmp -s "$ROOT/tests/services/rest/pom.xml" "$REST_JARS/.pins" && return 0
  command -v mvn >/dev/null || apt_get maven || return 1
  say "fetching Apache Iceberg's REST catalog with Maven into $REST_JARS"
  rm -rf "$REST_JARS"
  mvn -q -B -f "$ROOT/tests/services/rest/pom.xml" dependency:copy-dependencies -DoutputDirectory="$REST_JARS" \
    -DincludeScope=runtime </dev/null >&2 && cp "$ROOT/tests/services/rest/pom.xml" "$REST_JARS/.pins"
}

# start_rest DIR [WAREHOUSE NAME=VALUE...]: starts it on a free loopback port, its tables in DIR, or in the warehouse, which these properties of
# the catalog lead to; sets REST_PID, which stop_rest ends, and REST_ENDPOINT.
start_rest() {
  local dir=$1 warehouse=${2:-file://$1/warehouse}
  mkdir -p "$dir/warehouse" && rm -f "$dir/endpoint" || return 1
  java -Xmx512m -cp "$REST_JARS/*" "$ROOT/tests/services/rest/RestCatalog.java" "$dir/endpoint" "$warehouse" "$dir/rest.db" "${@:3}" \
    </dev/null >"$dir/log" 2>&1 &
  REST_PID=$!
  served "$dir" "$REST_PID" 60 "REST catalog" && REST_ENDPOINT=$ENDPOINT
}

stop_rest() { end "$REST_PID"; }

# PostgreSQL's server programs: of the search path, else where Debian keeps them. Sets POSTGRES_BIN. Debian's package would make and start
# a cluster of its own; it is told not to.
need_postgres() {
  find_postgres && return 0
  if [ "$(id -u)" = 0 ] && [ ! -e /etc/postgresql-common/createcluster.conf ]; then
    mkdir -p /etc/postgresql-common && printf 'create_main_cluster = false\n' >/etc/postgresql-common/createcluster.conf
  fi
  apt_get postgresql && find_postgres
}

find_postgres() {
  local dir
  for dir in "$(dirname "$(command -v initdb 2>/dev/null || echo /nowhere/initdb)")" /usr/lib/postgresql/*/bin; do
    if [ -x "$dir/initdb" ] && [ -x "$dir/postgres" ]; then
      POSTGRES_BIN=$dir
      return 0
    fi
  done
  return 1
}

# as_nobody COMMAND...: becomes the command, which is not root: PostgreSQL refuses to be. For a subshell.
as_nobody() {
  local as=()
  [ "$(id -u)" != 0 ] || as=(setpriv --reuid=nobody --regid=nogroup --clear-groups env HOME=/nonexistent)
  exec "${as[@]}" "$@"
}

# start_postgres DIR: a cluster of its own on a free loopback port, that trusts whoever comes there; sets POSTGRES_PID, which stop_postgres
# ends, and POSTGRES, how to connect.
start_postgres() {
  local dir=$1 data port
  mkdir -p "$dir" || return 1
  # Whoever runs it has to get there, and the temporary folder of a run is its owner's alone.
  data=$(mktemp -d /tmp/frazil-postgres.XXXXXX) || return 1
  [ "$(id -u)" != 0 ] || chown nobody:nogroup "$data" || return 1
  POSTGRES_DATA=$data
  (cd / && as_nobody "$POSTGRES_BIN/initdb" -D "$data/cluster" -U frazil -A trust -E UTF8 --locale=C --no-sync) </dev/null >"$dir/log" 2>&1 ||
    { tail -n 20 "$dir/log" >&2; rm -rf "$data"; return 1; }
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])') || return 1
  # Each takes the place of the one before, so that the id is the server's.
  (cd / && as_nobody "$POSTGRES_BIN/postgres" -D "$data/cluster" -c listen_addresses=127.0.0.1 -p "$port" \
    -c unix_socket_directories= -c fsync=off) </dev/null >>"$dir/log" 2>&1 &
  POSTGRES_PID=$!
  for _ in $(seq 300); do
    if grep -q 'ready to accept connections' "$dir/log"; then
      POSTGRES="host=127.0.0.1 port=$port user=frazil dbname=postgres"
      return 0
    fi
    kill -0 "$POSTGRES_PID" 2>/dev/null || break
    sleep 0.1
  done
  say "no PostgreSQL server; its log:"
  tail -n 20 "$dir/log" >&2
  stop_postgres
  return 1
}

stop_postgres() {
  # Fast shutdown: whoever is connected still is not waited for.
  kill -INT "$POSTGRES_PID" 2>/dev/null
  wait "$POSTGRES_PID" 2>/dev/null
  rm -rf "$POSTGRES_DATA"
  return 0
}

# cargo-deny, built once. Its version is fixed: a newer one may know new lints.
need_cargo_deny() {
  export PATH=$FRAZIL_CACHE/tools/bin:$PATH
  cargo deny --version 2>/dev/null | grep -qx 'cargo-deny 0.20.2' && return 0
  say "building cargo-deny 0.20.2 into $FRAZIL_CACHE/tools (some minutes, once)"
  CARGO_TARGET_DIR=$FRAZIL_CACHE/tools/target \
    cargo install cargo-deny --version 0.20.2 --locked --quiet --root "$FRAZIL_CACHE/tools" </dev/null >&2 || return 1
  rm -rf "$FRAZIL_CACHE/tools/target"
}
