#!/bin/bash
# test_flow_drills.sh - the worker of docs/worker.py: kills of server and workers, an upgrade, old and new code side by side,
# and one flow whose activities are a C function, Python and bash; small here, 1,000 flows with QP_LANE=torture
set -eu
root=$PWD
quipu=$PWD/${QP_BUILD:-build}/quipu
flows=6
[ "${QP_LANE:-check}" != torture ] || flows=1000
[ "$(wc -l < docs/worker.py)" -le 150 ]
awk '/^```bash$/ { on = 1; next } /^```$/ { on = 0 } on' docs/workers.md > "$TMPDIR/worker.sh"
cd "$TMPDIR"
server= workers=
trap 'for p in $workers $server; do kill -9 $p 2> /dev/null || true; done' EXIT

cat > order.py << 'END'
import os, sys
sys.path.insert(0, os.environ["DOCS"])
import worker

def order(ctx, input):
    old = os.environ["BUILD"] == "old"
    ctx.properties["stage"] = "new"
    paid = yield ctx.activity("charge", input)
    ctx.properties.update(stage="paid", events=len(ctx.events))
    if not old:
        yield ctx.activity("insure", input, v=2)
        ctx.removed("activity", "label")
    else:
        yield ctx.activity("label", input)
    said = yield [ctx.activity("quipu.echo", {"echo": input}), ctx.activity("greet", {"name": input["id"]})]
    yield ctx.sleep(0.01)
    answer = yield from ctx.listen("go", timeout=600)
    shipped = yield ctx.activity("ship", [paid, said[1], answer["data"]])
    yield ctx.child("bill", input, id="bill-" + input["id"])
    ctx.properties["stage"] = "shipped"
    yield from ctx.listen("end")
    return shipped

def bill(ctx, input):
    yield ctx.sleep(0.01)
    return (yield ctx.activity("bill", input))

def effect(input, task):
    with open("effects", "a") as out:
        out.write("%s %s %s\n" % (task["name"], task["job"], task["idempotency_key"]))
    return {task["name"]: task["job"]}

worker.flows.update(order=order, bill=bill)
for name in ("charge", "insure", "label", "ship", "bill"):
    worker.activities[name] = effect
worker.main(sys.argv[1], os.environ["BUILD"])
END

# serve ADDRESS: starts the server there, and waits until it is ready
serve() {
    rm -f out
    "$quipu" serve --data-dir data --listen "$1" --no-auth --socket none > out 2> err &
    server=$!
    for _ in $(seq 400); do
        QUIPU_URL=$(sed -n 's/^listening on \(http.*\)$/\1/p' out 2> /dev/null || true)
        [ -z "$QUIPU_URL" ] || break
        sleep 0.05
    done
    [ -n "$QUIPU_URL" ]
}
# work BUILD NAME: a worker in Python; its pid is in $worker
work() {
    DOCS=$root/docs BUILD=$1 python3 order.py "$2" 2>> worker.err &
    worker=$!
    workers="$workers $worker"
}
crash() {
    kill -9 "$1"
    wait "$1" 2> /dev/null || true
}
status() {
    curl -sf --max-time 20 "$QUIPU_URL/v1/jobs?where=$1&limit=1000&count=exact" | jq .count
}
# await WHERE COUNT: until that many jobs are so
await() {
    for _ in $(seq 2400); do
        [ "$(status "$1" || echo none)" != "$2" ] || return 0
        sleep 0.05
    done
    echo "not $2 jobs with $1: $(status "$1")" >&2
    curl -s "$QUIPU_URL/v1/jobs?limit=3" >&2
    return 1
}
signal_all() {
    for i in $(seq "$2"); do
        printf '%s ' "$i"
    done | tr ' ' '\n' | while read -r i; do
        [ -z "$i" ] || curl -sf --max-time 20 -H 'Content-Type: application/json' -d "{\"topic\":\"$1\",\"payload\":$i}" \
            "$QUIPU_URL/v1/jobs/o$i/signals" > /dev/null
    done
}

serve 127.0.0.1:0
export QUIPU_URL
QUIPU_TOKEN=none bash worker.sh &
workers=$!
for i in $(seq "$flows"); do # the name is not known yet: they wait
    curl -sf -H 'Content-Type: application/json' -d "{\"workflow\":\"order\",\"id\":\"o$i\",\"input\":{\"id\":\"o$i\"}}" \
        "$QUIPU_URL/v1/jobs" > /dev/null
done
work old py-1
old=$worker
sleep 0.3
crash "$server"
serve "${QUIPU_URL#http://}"
if [ "$flows" -gt 100 ]; then # what it has in hand comes again after its lease of 30 s
    crash "$old"
    work old py-2
    old=$worker
fi
await 'status%3Dwaiting' "$flows"

# what the code says of them is seen and found without it
[ "$(status 'properties.stage%3Dpaid')" = "$flows" ]
[ "$(status 'properties.stage%3Dnew%20or%20properties.events%3C1')" = 0 ]

# an upgrade while they run: old and new code side by side
work new py-3
new=$worker
signal_all go "$flows"
sleep 0.2
crash "$server"
serve "${QUIPU_URL#http://}"
await 'status%3Dwaiting' "$flows"
[ "$(status 'status%3Dparked')" = 0 ]

# only old code is left, and one history is newer: a newer build is awaited
crash "$old"
curl -sf -H 'Content-Type: application/json' -d '{"workflow":"order","id":"o0","input":{"id":"o0"}}' "$QUIPU_URL/v1/jobs" > /dev/null
await 'status%3Dwaiting' $((flows + 1))
crash "$new"
work old py-4
old=$worker
curl -sf -H 'Content-Type: application/json' -d '{"topic":"go","payload":0}' "$QUIPU_URL/v1/jobs/o0/signals" > /dev/null
for _ in $(seq 1200); do
    awaits=$(curl -sf "$QUIPU_URL/v1/jobs/o0" | jq -r .awaits)
    [ "$awaits" = null ] || break
    sleep 0.05
done
case $awaits in
"a newer build is awaited: at {2} history has activity 'insure' v2, build 'old' has activity 'label' v1") ;;
*) echo "awaits: $awaits" >&2 && exit 1 ;;
esac
[ "$(status 'status%3Dparked')" = 0 ]
work new py-5
signal_all end "$flows"
curl -sf -H 'Content-Type: application/json' -d '{"topic":"end"}' "$QUIPU_URL/v1/jobs/o0/signals" > /dev/null
await 'status%3Dcompleted' $((2 * flows + 2)) # and the bills that they have started

# one that is asked to end gets it at the step that it waits for, and ends cancelled
curl -sf -H 'Content-Type: application/json' -d '{"workflow":"order","id":"c1","input":{"id":"c1"}}' "$QUIPU_URL/v1/jobs" > /dev/null
await 'status%3Dwaiting' 1
curl -sf -X POST "$QUIPU_URL/v1/jobs/c1/cancel" > /dev/null
await 'status%3Dcancelled' 1
sed -i '/ c1 /d' effects

# each effect has happened, and each result was used once
for name in charge ship bill; do
    [ "$(grep "^$name " effects | sort -u | wc -l)" = $((flows + 1)) ]
done
[ "$(curl -sf "$QUIPU_URL/v1/jobs/o1/result" | jq -c .output)" = '{"ship":"o1"}' ]
[ "$(curl -sf "$QUIPU_URL/v1/jobs/o1/properties" | jq -r .stage)" = shipped ]
kill -TERM "$server"
wait "$server"
server=
"$quipu" fsck data/quipu.db
