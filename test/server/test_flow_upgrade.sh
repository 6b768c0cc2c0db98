#!/bin/bash
# test_flow_upgrade.sh - the code of many flows at the Python worker of docs changes while they are at different points of it
#
#   right   the code gains steps, loses one and asks for the version: all flows finish, none is parked, and every step has run as
#           the point says at which its flow stood
#   wrong   a step is exchanged without a mark: exactly the flows that have recorded it are parked, with the location and both
#           sides; with the code as it was before, a retry finishes them
#
# Workers end by SIGKILL. A flow stands at the first listen for which it has no signal. 1,000 flows each with QP_LANE=torture.
set -eu
flows=12
[ "${QP_LANE:-check}" != torture ] || flows=1000
. test/server/drill.sh

cat > order.py << 'EOF'
import os, sys
sys.path.insert(0, os.environ["DOCS"])
import worker
build = os.environ["BUILD"]
edited = build == "edited"

def order(ctx, input):
    yield ctx.activity("a", input)
    if edited:
        yield ctx.activity("x", input, v=2)
    yield from ctx.listen("go", timeout=3600)
    if edited:
        ctx.removed("activity", "b")
    else:
        yield ctx.activity("b", input)
    yield from ctx.listen("go")
    version = ctx.check_version(2) if edited else 1
    if version == 2:
        yield ctx.activity("c2", input, v=2)
    else:
        yield ctx.activity("cc" if build == "wrong" else "c", input)
    yield from ctx.listen("go")
    yield ctx.activity("d", input)
    if edited:
        yield ctx.activity("y", input, v=2)
    yield from ctx.listen("go")
    yield ctx.activity("e", input)
    return version

def effect(input, task):
    with open("effects", "a") as out:
        out.write("%s %s %s\n" % (task["name"], task["job"], task["idempotency_key"]))

worker.flows["order"] = order
for name in ("a", "x", "b", "c", "c2", "cc", "d", "y", "e"):
    worker.activities[name] = effect
worker.main(sys.argv[1], build)
EOF

# The point of a flow, 0 to 3: how many signals it has when the code changes; and what must have come of it.
cat > points.py << 'EOF'
"""points.py early N | late N: signals; right N | parked N | wrong N: what must be so now; retry N"""
import collections, json, os, sys
what, flows = sys.argv[1], int(sys.argv[2])
exec(open("client.py").read().split("what, *words")[0])
seed = int(os.environ["POINTS"])
point = {i: (i * 7 + i // 4 + seed) % 4 for i in range(1, flows + 1)}
SIDES = "history and code differ at {6}: history has activity 'c' v1, the code has activity 'cc' v1"

def job(i):
    return ask("GET", "/v1/jobs/o%d" % i)[1]
def must(i, what, found, wanted):
    if found != wanted:
        sys.exit("o%d, which stood at %d: %s is %r, expected %r" % (i, point[i], what, found, wanted))

if what in ("early", "late"):
    for i, p in point.items():
        for _ in range(p if what == "early" else 4 - p):
            ask("POST", "/v1/jobs/o%d/signals" % i, {"topic": "go"})
if what in ("right", "parked", "wrong"):
    keys = collections.defaultdict(set)
    for effect in open("effects"):
        name, id, key = effect.split()
        keys[id, name].add(key)
    for i, p in point.items():
        recorded = p >= 2                       # it has the step that changes
        found = job(i)
        if what == "parked" and recorded:
            must(i, "status", found["status"], "parked")
            if SIDES not in json.dumps(found):
                sys.exit("o%d is parked without %r: %s" % (i, SIDES, found))
            continue
        must(i, "status", found["status"], "completed")
        done = {"right": dict(a=1, x=1, b=p >= 1, c=recorded, c2=not recorded, cc=0, d=1, y=1, e=1),
                "parked": dict(a=1, x=0, b=1, c=0, c2=0, cc=1, d=1, y=0, e=1),
                "wrong": dict(a=1, x=0, b=1, c=recorded, c2=0, cc=not recorded, d=1, y=0, e=1)}[what]
        for name, times in done.items():
            must(i, "'%s'" % name, len(keys["o%d" % i, name]), int(times))
        if what == "right":
            must(i, "the version", found["output"], 1 if recorded else 2)
if what == "retry":
    for i, p in point.items():
        if p >= 2:
            status, said = ask("POST", "/v1/jobs/o%d/retry" % i, {})
            if status >= 300:
                sys.exit("retry of o%d: %d %s" % (i, status, said))
print(sum(p >= 2 for p in point.values()))
EOF
export POINTS=$((RANDOM % 4))
points() {
    python3 points.py "$1" "$flows"
}

# begin: all flows stand at their points in the first code, whose worker is killed
begin() {
    rm -rf data effects
    serve 127.0.0.1:0
    work first first
    client start "$flows"
    points early > /dev/null
    await status=waiting "$flows"
    crash_worker first
}

# right
begin
serve_again
work edited edited
points late > /dev/null
await status=completed "$flows"
points right > /dev/null
one_key
end_well
crash_worker edited

# wrong, and undone
begin
work wrong wrong
recorded=$(points late)
await status=parked "$recorded"
await status=completed $((flows - recorded))
expect 'parked ones' "$(points parked)" "$recorded"
crash_worker wrong
work again first
points retry > /dev/null
await status=completed "$flows"
points wrong > /dev/null
one_key
end_well
echo "$flows flows each, $recorded of them parked by the wrong edit"
