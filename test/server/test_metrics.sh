#!/bin/bash
# test_metrics.sh - rules, dashboard and documentation name the numbers that there are, and a server tells them
#
# A test is a function test_*; it fails by returning non-zero. The last line counts them.
set -u
build=${QP_BUILD:-build}
root=$PWD
quipu=$root/$build/quipu
cd "$TMPDIR" || exit 1

# names FILE... : the families that are named there, without the endings of histograms
names() {
    cat "$@" | grep -oE '\bquipu_[a-z_]+' | sed -E 's/_(bucket|sum|count)$//' | sort -u
}

# The families of the source: each is a literal of a metric's name.
families() {
    grep -rhoE '"quipu_[a-z_]+"' "$root/src/run" "$root/src/server" | tr -d '"' | sort -u
}

# missing OF IN : prints the lines of the first that are not in the second; fails when there are any
missing() {
    ! comm -23 "$1" "$2" | grep .
}

test_names() {
    families > there
    names "$root/share/alerts.yml" "$root/share/grafana.json" > used
    names "$root/docs/metrics.md" > told
    jq -e .panels "$root/share/grafana.json" > /dev/null && [ "$(wc -l < there)" -gt 20 ] && [ "$(wc -l < used)" -gt 15 ] &&
        missing used there && missing told there && missing there told
}

# A job that a worker does (1 in, 2 out) and one that nobody does (null in): then every family is there, but that of parked jobs.
test_scrape() {
    local token url server result
    "$quipu" serve --data-dir data --listen 127.0.0.1:0 > out 2> err &
    server=$!
    for _ in $(seq 200); do
        url=$(sed -n 's/^listening on \(http.*\)$/\1/p' out)
        [ -n "$url" ] && break
        sleep 0.05
    done
    token="Authorization: Bearer $(cat data/admin.token)"
    curl -sf -H "$token" --json '{"topic":"work","input":1}' "$url/v1/jobs" > /dev/null
    curl -sf -H "$token" --json '{"topic":"other"}' "$url/v1/jobs" > /dev/null
    result=$(curl -sf -H "$token" --json '{"worker":"w","topics":["work"],"wait":"5s"}' "$url/v1/work" |
        sed -n 's/.*"token":"\([^"]*\)".*/\1/p')
    curl -sf -H "$token" --json "{\"worker\":\"w\",\"results\":[{\"token\":\"$result\",\"output\":2}]}" "$url/v1/work" > /dev/null
    curl -sf -H "$token" "$url/metrics" > scrape
    kill -TERM "$server" && wait "$server" || return 1
    sed -n 's/^# TYPE \([a-z_]*\) .*/\1/p' scrape | sort > scraped
    families | grep -v quipu_parked_jobs > there
    missing there scraped && missing scraped there &&
        grep -q '^quipu_activity_attempts_total{workflow="work",activity="run",outcome="success"} 1$' scrape &&
        grep -q '^quipu_payload_bytes_total 6$' scrape && grep -q '^quipu_leader 1$' scrape
}

passed=0
failed=0
for name in $(declare -F | sed -n 's/^declare -f \(test_.*\)/\1/p'); do
    if "$name"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$name failed"
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
