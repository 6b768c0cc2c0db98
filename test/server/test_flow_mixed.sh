#!/bin/bash
# test_flow_mixed.sh - flows whose activities are done by a C function, by Python and by bash, while all of them and the server
# are killed at random
#
# On a file the C function is one of the server's own (quipu.echo); on PostgreSQL, in the long lane, it is in a process of its own
# that shares the database (test/tools/charger.c), and its effect is a row in the commit of its result. In the end every flow has
# completed, its C effect has happened once, those of Python and bash at least once and at most once more for every kill, always
# under the same idempotency key, and the store obeys the rules of the protocol. QP_SEED chooses who is killed, and when.
#
# In the short lane the worker that decides is not killed: what it has in hand comes again after a lease of 30 s. Activities have
# a heartbeat limit instead.
set -eu
if [ "${QP_LANE:-check}" = torture ] && [ -z "${QP_TEST_PG:-}" ]; then
    exec "$(realpath "${QP_BUILD:-build}")/test/tools/withpg" bash "$0"
fi
flows=6 kills=6 victims=(server packer labeller)
[ "${QP_LANE:-check}" != torture ] || flows=1000 kills=60 victims=(server packer labeller decider)
. test/server/drill.sh

cat > order.py << 'EOF'
import os, sys
sys.path.insert(0, os.environ["DOCS"])
import worker
often = {"attempts": 100, "backoff": 50, "factor": 1, "cap": 50}

def order(ctx, input):
    charged = yield ctx.activity(os.environ["CHARGE"], input, retry=often)
    done = yield [ctx.activity("pack", input, retry=often, heartbeat=1000),
                  ctx.activity("label", input, retry=often, heartbeat=1000)]
    yield ctx.sleep(0.05)
    yield from ctx.listen("go", timeout=3600)
    done.append((yield ctx.activity("pack", {"again": done[0]}, retry=often, heartbeat=1000)))
    return [charged, *done]

def pack(input, task):
    with open("effects", "a") as out:
        out.write("%s %s %s\n" % ("again" if "again" in input else "pack", task["job"], task["idempotency_key"]))
    return {"packed": task["job"]}

if os.environ["BUILD"] == "decider":
    worker.flows["order"] = order
else:
    worker.activities["pack"] = pack
worker.main(sys.argv[1], os.environ["BUILD"])
EOF
# The worker of docs, with another topic, and an effect.
sed -e 's/"greet"/"label"/; s/greeter/labeller/' \
    -e 's/^    results=.*/    jq -r ".tasks[] | \\"label \\" + .job + \\" \\" + .idempotency_key" <<< "$answer" >> effects\n&/' \
    -e 's/greeting: ("Hello, " + .input.name + "!")/label: .job/' worker.sh > labeller.sh
grep -q 'effects' labeller.sh && grep -q 'label: .job' labeller.sh

begin_worker() {
    case $1 in
    labeller)
        bash labeller.sh &
        workers[labeller]=$!
        ;;
    charger)
        "$build/test/tools/charger" "$place" run &
        workers[charger]=$!
        ;;
    *) work "$1" "$1" ;;
    esac
}
kill_one() {
    local victim=${victims[RANDOM % ${#victims[@]}]}
    if [ "$victim" = server ]; then
        serve_again "${store[@]}"
    else
        crash_worker "$victim"
        begin_worker "$victim"
    fi
    killed=$((killed + 1))
}
# counted NAME: every flow's effect, no more often than deaths explain
counted() {
    expect "flows with '$1'" "$(effects "$1")" "$flows"
    [ "$(grep -c "^$1 " effects)" -le $((flows + killed)) ] || { echo "'$1' has happened too often" >&2; return 1; }
}

# drill WHERE STORE...: the arguments of the server for its store
drill() {
    local where=$1
    shift
    store=("$@") killed=0
    rm -f effects
    serve 127.0.0.1:0 "${store[@]}"
    for name in decider packer labeller "${more[@]}"; do
        begin_worker "$name"
    done
    client start "$flows" &
    clients=$!
    for ((i = 0; i < kills / 2; i++)); do
        sleep "0.$((RANDOM % 8 + 1))"
        kill_one
    done
    wait "$clients"
    client signal go "$flows" &
    clients=$!
    for ((i = 0; i < kills / 2; i++)); do
        sleep "0.$((RANDOM % 8 + 1))"
        kill_one
    done
    wait "$clients"
    await status=completed "$flows"
    for name in pack label again; do
        counted "$name"
    done
    one_key
    for name in decider packer labeller "${more[@]}"; do
        crash_worker "$name"
    done
    echo "$where: $flows flows, $killed kills, $(wc -l < effects) effects of $((3 * flows))"
}

more=()
export CHARGE=quipu.echo
drill 'a file'
expect 'output of o1' "$(client member o1 output)" \
    '[{"id": "o1"}, {"packed": "o1"}, {"label": "o1"}, {"packed": "o1"}]'
end_well

if [ "${QP_LANE:-check}" = torture ]; then
    place="$QP_TEST_PG/postgres?schema=mixed"
    more=(charger)
    victims+=(charger)
    CHARGE=charge
    "$build/test/tools/charger" "$place" make
    drill PostgreSQL --store "$place"
    expect 'charges, and flows that were charged' "$("$build/test/tools/charger" "$place" count)" "$flows $flows"
    end_well "$place"
fi
