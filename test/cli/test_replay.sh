#!/bin/bash
# test_replay.sh - quipu replay with the worker of docs/worker.py: code that fits a history, code that does not, in each of its ways, and
# workers that fail
set -u
. test/cli/lib.sh

# The flow as BUILD has it. `first` is what the histories were made with.
before_each() {
    cat > order.py << 'END'
import os, sys, time
sys.path.insert(0, os.environ["DOCS"])
import worker
build = os.environ.get("BUILD", "first")

def order(ctx, input):
    if build == "throws":
        raise ValueError("a mistake")
    if build == "silent":
        time.sleep(600)
    paid = yield ctx.activity("pay" if build == "renamed" else "charge", input)
    if build == "inserted":
        yield ctx.activity("insure", input, v=2)
    both = yield [ctx.activity("pack", 1), ctx.activity("label", 2)]
    if build == "shorter":
        return paid
    yield ctx.sleep(0.01)
    try:
        yield from ctx.listen("go", timeout=600)
    except worker.Failed:
        yield ctx.activity("forget" if build == "forgets" else "refund", paid, shield=True)
        raise
    ctx.properties["stage"] = "packed"
    yield ctx.activity("ship", both)
    if build == "longer":
        yield ctx.activity("thank", input)
    return paid

worker.flows["other" if build == "elsewhere" else "order"] = order
for name in ("charge", "pack", "label", "ship", "thank", "pay", "insure", "refund", "forget"):
    worker.activities[name] = lambda input, task: open(os.environ["EFFECTS"], "a").write(task["name"] + "\n") and task["name"]
if build == "dies":
    sys.exit(3)
worker.main("w", build)
END
    export DOCS=$root/docs EFFECTS=$PWD/effects
    serve --no-auth --socket none && export QUIPU_SERVER=$url
    QUIPU_URL=$url python3 order.py 2> worker.err &
    servers+=($!)
    "$quipu" start --workflow order --id waits a:=1 > /dev/null 2>&1 && "$quipu" start --workflow order --id done a:=2 > /dev/null 2>&1 &&
        eventually grep -q label effects && "$quipu" signal done go x:=1 > /dev/null 2>&1 && "$quipu" wait done > /dev/null 2>&1 &&
        eventually waits_for_go && cancel_one && "$quipu" export waits > waits.json && "$quipu" export done > done.json && cp effects effects.before
}

# Asked to end while it waits: the code gives the charge back.
cancel_one() {
    "$quipu" start --workflow order --id stopped a:=3 > /dev/null 2>&1 && eventually waits_at stopped && "$quipu" cancel stopped > /dev/null 2>&1 &&
        { "$quipu" wait stopped > /dev/null 2>&1; eventually is_cancelled; } && "$quipu" export stopped > stopped.json
}
waits_at() {
    "$quipu" show "$1" -o json | jq -e '.waits_for | tostring | contains("signal")'
}
is_cancelled() {
    "$quipu" show stopped -o json | jq -e '.status == "cancelled"'
}

waits_for_go() {
    waits_at waits
}

# says EXIT BUILD OUT-PATTERN [ERR-PATTERN]: of the history that waits
says() {
    expect "$1" "$3" "${4:--}" replay waits.json --worker "BUILD=$2 python3 order.py"
}

test_fits() {
    says 0 first "^waits.json: 5 events of 'order' were replayed$" && says 0 longer 'were replayed$' &&
        expect 0 "^done.json: 7 events of 'order' were replayed$" - replay done.json --worker 'python3 order.py' &&
        diff effects effects.before
}

# The cancel is part of the history: it is thrown where it was, and what the code did then is replayed.
test_cancelled() {
    jq -e '.history.log[0] | .op == "cancel" and .thrown == "{5}"' stopped.json > /dev/null &&
        expect 0 "^stopped.json: 6 events of 'order' were replayed$" - replay stopped.json --worker 'python3 order.py' &&
        expect 4 '^stopped.json: diverged at \{6\}$' - replay stopped.json --worker 'BUILD=forgets python3 order.py' &&
        matches "^    history  activity 'refund' v1$" "$TMPDIR/out" && matches "^    code     activity 'forget' v1$" "$TMPDIR/out" &&
        diff effects effects.before
}

test_differs() {
    says 4 renamed '^waits.json: diverged at \{1\}$' && matches "^    history  activity 'charge' v1$" "$TMPDIR/out" &&
        matches "^    code     activity 'pay' v1$" "$TMPDIR/out" &&
        says 4 inserted "^    code     activity 'insure' v2$" && matches '^waits.json: new step at \{1.1\}$' "$TMPDIR/out" &&
        says 4 shorter '^waits.json: latent at \{4\}$' && matches '^    history  sleep v1$' "$TMPDIR/out" && matches '^    code     -$' "$TMPDIR/out" &&
        diff effects effects.before
}

test_worker_fails() {
    says 1 throws '' "the worker has failed: .*ValueError" && says 1 dies '' 'the worker ended before it said anything' &&
        expect 1 '' 'ended before it said anything: no-such-program' replay waits.json --worker no-such-program &&
        diff effects effects.before
}

test_silence() {
    [ "${QP_LANE:-check}" = torture ] || return 0 # it takes 30 s
    says 1 silent '' "said nothing of the flow 'order' for 30 s" && says 1 elsewhere '' 'said nothing'
}

test_directory() {
    mkdir kept && cp waits.json done.json kept/ &&
        expect 0 "^kept/waits.json: 5 events" - replay kept --worker 'python3 order.py' && matches '^kept/done.json: 7 events' "$TMPDIR/out" &&
        expect 4 "^kept/done.json: latent at \{4\}$" - replay kept --worker 'BUILD=shorter python3 order.py' &&
        matches '^kept/waits.json: latent' "$TMPDIR/out" &&
        mkdir none && expect 2 '' 'no file \*.json' replay none --worker true
}

test_refused() {
    echo '{"job":{"workflow":"x"}}' > other.json && echo '{' > broken.json &&
        expect 3 '' 'no export of a flow' replay other.json --worker true && expect 2 '' 'no JSON' replay broken.json --worker true &&
        expect 2 '' '--worker is missing' replay other.json && expect 2 '' 'No such file' replay nowhere.json --worker true
}

run_tests
