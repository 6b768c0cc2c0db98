#!/bin/bash
# drill.sh - what the drills with the worker of docs/worker.py share; each test_flow_*.sh reads it at its top
#
# The server is in ./data, without tokens; what a drill has started is ended with it. Requests are made by ./client.py, which
# repeats each until it is answered, so that servers may die meanwhile.
root=$PWD
build=$(realpath "${QP_BUILD:-build}")
quipu=$build/quipu
awk '/^```bash$/ { on = 1; next } /^```$/ { on = 0 } on' docs/workers.md > "$TMPDIR/worker.sh"
export QUIPU_TOKEN=none # there are none; the worker in bash sends one
cd "$TMPDIR"
server=''
declare -A workers # pid by name
trap end_all EXIT
RANDOM=${QP_SEED:-$$}
echo "QP_SEED=${QP_SEED:-$$}"

cat > client.py << 'EOF'
"""client.py start N | signal NAME N: jobs o1 .. oN; await WHERE COUNT: until so many are so; status WHERE: how many are so;
member JOB MEMBER: it; until JOB MEMBER: when there is one"""
import http.client, json, os, sys, time, urllib.parse
host = urllib.parse.urlparse(os.environ["QUIPU_URL"]).netloc
line = None

def ask(method, path, body=None):
    global line
    for tries in range(1200):
        try:
            line = line or http.client.HTTPConnection(host, timeout=30)
            line.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"})
            answer = line.getresponse()
            text = answer.read()
            if answer.status < 500:
                return answer.status, json.loads(text or b"null")
        except (OSError, http.client.HTTPException, ValueError):
            pass
        line = None
        time.sleep(0.05)
    sys.exit("%s %s is never answered" % (method, path))

def count(where):
    return ask("GET", "/v1/jobs?limit=1&count=exact&where=" + urllib.parse.quote(where))[1]["count"]
def member(job, name):
    found = ask("GET", "/v1/jobs/" + job)[1]
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found if isinstance(found, str) else json.dumps(found)
def wait_for(done, what):
    end = time.monotonic() + 300
    while not done():
        if time.monotonic() > end:
            sys.exit("never: " + what())
        time.sleep(0.05)

what, *words = sys.argv[1:]
if what == "status":
    print(count(words[0]))
elif what == "await":
    wait_for(lambda: count(words[0]) == int(words[1]),
             lambda: "%s jobs with %s, there are %d" % (words[1], words[0], count(words[0])))
elif what == "member":
    print(member(*words))
elif what == "until":
    wait_for(lambda: member(*words) != "null", lambda: "%s of %s" % (words[1], words[0]))
    print(member(*words))
for i in range(1, int(words[-1]) + 1) if what in ("start", "signal") else ():
    path, body = {"start": ("", {"workflow": "order", "id": "o%d" % i, "input": {"id": "o%d" % i}}),
                  "signal": ("/o%d/signals" % i, {"topic": words[0], "payload": i})}[what]
    status, said = ask("POST", "/v1/jobs" + path, body)
    if status >= 300 and status != 409:
        sys.exit("%s %s: %d %s" % (what, path, status, said))
EOF
client() {
    python3 client.py "$@"
}

# serve ADDRESS [ARGUMENT...]: starts the server there, and waits until it is ready
serve() {
    local address=$1
    shift
    rm -f out
    "$quipu" serve --data-dir data --listen "$address" --no-auth --socket none "$@" > out 2>> err &
    server=$!
    for _ in $(seq 400); do
        QUIPU_URL=$(sed -n 's/^listening on \(http.*\)$/\1/p' out 2> /dev/null || true)
        [ -z "$QUIPU_URL" ] || break
        sleep 0.05
    done
    export QUIPU_URL
    [ -n "$QUIPU_URL" ] || { cat err >&2; return 1; }
}
# serve_again [ARGUMENT...]: it dies, and another one takes its place
serve_again() {
    crash "$server"
    serve "${QUIPU_URL#http://}" "$@"
}
# work NAME BUILD: ./order.py as a worker
work() {
    DOCS=$root/docs BUILD=$2 python3 order.py "$1" 2>> worker.err &
    workers[$1]=$!
}
greet() {
    bash worker.sh &
    workers[greeter]=$!
}
# crash PID: with SIGKILL
crash() {
    kill -9 "$1"
    wait "$1" 2> /dev/null || true
}
crash_worker() {
    crash "${workers[$1]}"
    unset "workers[$1]"
}
end_all() {
    local pid
    for pid in "${workers[@]}" $server; do
        kill -9 "$pid" 2> /dev/null || true
    done
}
# await WHERE COUNT: until that many jobs are so
await() {
    client await "$@"
}
# expect WHAT FOUND WANTED
expect() {
    [ "$2" = "$3" ] || { echo "$1 is '$2', expected '$3'" >&2; return 1; }
}
# effects NAME: jobs that this activity was done for
effects() {
    awk -v name="$1" '$1 == name { print $2 }' effects 2> /dev/null | sort -u | wc -l
}
# one_key: no activity of a job has had two idempotency keys
one_key() {
    expect 'activities with two keys' "$(sort -u effects | awk '{ print $1, $2 }' | uniq -d | wc -l)" 0
}
# end_well [STORE]: the server ends in peace, and the store obeys the rules of the protocol
end_well() {
    kill -TERM "$server"
    wait "$server"
    server=''
    "$quipu" fsck "${1:-data/quipu.db}"
}
