#!/bin/bash
# test_flow_drills.sh - old and new code of a flow side by side, at the worker of docs/worker.py; 1,000 flows with QP_LANE=torture
#
# The new code has a step more and one less. While old and new workers run together, and servers die, no flow is parked and all
# end. When only old workers are left, a flow that the new code has seen says that a newer build is awaited.
set -eu
flows=6
[ "${QP_LANE:-check}" != torture ] || flows=1000
[ "$(wc -l < docs/worker.py)" -le 150 ]
. test/server/drill.sh

cat > order.py << 'EOF'
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
    answer = yield from ctx.listen("go", timeout=3600)
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
EOF

serve 127.0.0.1:0
greet
client start "$flows" # the name is not known yet: they wait
work py-1 old
work py-2 new
sleep 0.3
serve_again
if [ "$flows" -gt 100 ]; then # what it has in hand comes again after its lease of 30 s
    crash_worker py-1
    work py-1 old
fi
await status=waiting "$flows"

# what the code says of them is seen and found without it
expect 'flows that are paid' "$(client status properties.stage=paid)" "$flows"
expect 'flows that are not' "$(client status 'properties.stage=new or properties.events<1')" 0

client signal go "$flows"
sleep 0.2
serve_again
await properties.stage=shipped "$flows"
await status=waiting "$flows" # no worker has anything in hand
expect 'parked flows' "$(client status status=parked)" 0

# one flow that the new code alone has seen; then only old code is left
crash_worker py-1
curl -sf -H 'Content-Type: application/json' -d '{"workflow":"order","id":"o0","input":{"id":"o0"}}' "$QUIPU_URL/v1/jobs" > /dev/null
await status=waiting $((flows + 1))
crash_worker py-2
work py-4 old
curl -sf -H 'Content-Type: application/json' -d '{"topic":"go","payload":0}' "$QUIPU_URL/v1/jobs/o0/signals" > /dev/null
expect 'what o0 awaits' "$(client until o0 awaits)" \
    "a newer build is awaited: at {2} history has activity 'insure' v2, build 'old' has activity 'label' v1"
"$quipu" show o0 --server "$QUIPU_URL" | grep -q 'a newer build is awaited'
expect 'parked flows' "$(client status status=parked)" 0
work py-5 new
client signal end "$flows"
curl -sf -H 'Content-Type: application/json' -d '{"topic":"end"}' "$QUIPU_URL/v1/jobs/o0/signals" > /dev/null
await status=completed $((2 * flows + 2)) # and the bills that they have started

# one that is asked to end gets it at the step that it waits for, and ends cancelled
curl -sf -H 'Content-Type: application/json' -d '{"workflow":"order","id":"c1","input":{"id":"c1"}}' "$QUIPU_URL/v1/jobs" > /dev/null
await status=waiting 1
curl -sf -X POST "$QUIPU_URL/v1/jobs/c1/cancel" > /dev/null
await status=cancelled 1
sed -i '/ c1 /d' effects

# each effect has happened, and each result was used once
for name in charge ship bill; do
    expect "$name" "$(effects $name)" $((flows + 1))
done
expect 'insured or labelled' "$(awk '$1 == "insure" || $1 == "label" { print $2 }' effects | sort -u | wc -l)" $((flows + 1))
one_key
expect 'output of o1' "$(client member o1 output.ship)" o1
expect 'stage of o1' "$(client member o1/properties stage)" shipped
end_well
