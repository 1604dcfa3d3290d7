#!/usr/bin/env bash
# A Sandbox Fusion server in Docker for sandbox=fusion, on this machine's port 8080. Not yet run with the image itself.
# launch/sandbox_fusion.sh                 start, wait until it answers
# launch/sandbox_fusion.sh stop            end it
# PORT=8081 MEMORY=32g CPUS=16 launch/sandbox_fusion.sh
# python recipes/grpo.py sandbox=fusion sandbox.url=http://localhost:8081
# The image takes 40 GB of disk. Programs share the container: limits hold for all of them together, and one can disturb
# another (envs/sandbox/fusion.py says what that means); sandbox=local keeps each by itself.
set -euo pipefail

HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
IMAGE="${IMAGE:-volcengine/sandbox-fusion:server-20250609}"
NAME="${NAME:-sandbox-fusion}"
NETWORK="${NETWORK:-sandbox-fusion-inside}"
PORT="${PORT:-8080}"
MEMORY="${MEMORY:-16g}"
CPUS="${CPUS:-8}"
PIDS="${PIDS:-4096}"

fail() { echo "sandbox_fusion: $*" >&2; exit 1; }

command -v docker >/dev/null || fail "docker is not installed: install it, or use sandbox=local"
docker info >/dev/null 2>&1 || fail "the Docker daemon does not answer: start it, or use sandbox=local"

if [ "${1:-start}" = stop ]; then
    docker rm --force "$NAME" >/dev/null
    docker network rm "$NETWORK" >/dev/null 2>&1 || true
    exit 0
fi
[ "${1:-start}" = start ] || fail "usage: $0 [start|stop]"
[ -z "$(docker ps --all --quiet --filter "name=^$NAME\$")" ] || fail "$NAME is there already: $0 stop"

# A bridge without masquerading: this machine reaches the published port, programs inside reach no network beyond this
# machine (what listens on its own addresses they do reach: keep a firewall).
docker network inspect "$NETWORK" >/dev/null 2>&1 ||
    docker network create --opt com.docker.network.bridge.enable_ip_masquerade=false \
        --opt com.docker.network.bridge.enable_icc=false "$NETWORK" >/dev/null

docker run --detach --name "$NAME" --restart on-failure \
    --network "$NETWORK" --dns 127.0.0.1 --publish "127.0.0.1:$PORT:8080" \
    --env HOST=0.0.0.0 --memory "$MEMORY" --memory-swap "$MEMORY" --cpus "$CPUS" --pids-limit "$PIDS" --shm-size 256m \
    --ulimit core=0 --ulimit nofile=65536:65536 \
    --cap-drop ALL --cap-add KILL --cap-add SETUID --cap-add SETGID --cap-add CHOWN --cap-add DAC_OVERRIDE \
    --security-opt no-new-privileges \
    --volume "$HERE/sandbox_fusion.yaml:/root/sandbox/sandbox/configs/local.yaml:ro" \
    "$IMAGE" >/dev/null || {
    docker rm --force "$NAME" >/dev/null 2>&1 # it is there without running, in the way of the next start
    fail "docker could not start it"
}

for _ in $(seq 120); do
    if curl --silent --fail --max-time 10 "http://127.0.0.1:$PORT/run_code" --header 'Content-Type: application/json' \
        --data '{"language": "python", "code": "print(6 * 7)"}' 2>/dev/null | grep --quiet '"stdout":"42'; then
        echo "sandbox_fusion: http://localhost:$PORT"
        exit 0
    fi
    [ -n "$(docker ps --quiet --filter "name=^$NAME\$")" ] || fail "it has ended: docker logs $NAME"
    sleep 1
done
fail "no answer on port $PORT within two minutes: docker logs $NAME"
