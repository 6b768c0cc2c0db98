#!/bin/bash
# test_graphs.sh - graphs on the command line: on a file and on a server the same commands print the same
set -u
. test/cli/lib.sh

# on PLACE FUNCTION: runs the function with $at being the options of the place
on_both() {
    at=(--db file.db)
    "$1" > file.said || { cat file.said; return 1; }
    serve && at=(--server unix:data/quipu.sock) || return 1
    "$1" > server.said || { cat server.said; return 1; }
    diff file.said server.said
}

# said: what the last command printed, but for times
said() {
    sed -E 's/20[0-9]{2}-[0-9-]+T[0-9:.]+Z/TIME/g' "$TMPDIR/out"
}

# On a file nobody works until somebody runs it.
work() {
    [ "${at[0]}" != --db ] || "$quipu" run "${at[@]}" --timeout 30s 2> run.err || { cat run.err; return 1; }
}

versions() {
    expect 0 '^fan-out 1: deployed$' '' deploy "$root/examples/graphs/fan-out.yaml" "${at[@]}" && said &&
        expect 0 '^fan-out 1: was there, active' '' deploy "$root/examples/graphs/fan-out.yaml" --activate "${at[@]}" && said &&
        sed "s/version: '1'/version: '2'/; s/south/east/g" "$root/examples/graphs/fan-out.yaml" > two.yaml &&
        expect 0 '^fan-out 2: deployed, active' '' deploy two.yaml --activate "${at[@]}" && said &&
        expect 0 '^fan-out +2 +1, 2 +offers.wanted' '' workflows ls "${at[@]}" && said &&
        expect 0 '^fan-out$' '' workflows ls -q "${at[@]}" && said &&
        expect 0 '^  \+ east$' '' workflows diff fan-out 1 2 "${at[@]}" && matches '^  - south -> add' "$TMPDIR/out" && said &&
        expect 4 '' 'active' workflows rm fan-out 2 "${at[@]}" &&
        expect 0 '^fan-out 1: active' '' workflows activate fan-out 1 "${at[@]}" && said &&
        expect 0 '^fan-out 2: removed' '' workflows rm fan-out 2 "${at[@]}" && said &&
        expect 0 '^1 +true' '' workflows show fan-out "${at[@]}" && said &&
        expect 0 - '' workflows show fan-out 1 "${at[@]}" && diff "$TMPDIR/out" "$root/examples/graphs/fan-out.yaml" || return 1
    sed 's/want:/wants:/' "$root/examples/graphs/fan-out.yaml" > bad.yaml
    expect 1 '' '^bad.yaml:[0-9]+:[0-9]+: ' deploy bad.yaml "${at[@]}" && matches 'nothing deployed' "$TMPDIR/err" &&
        sed 's/price/cost/' "$root/examples/graphs/fan-out.yaml" > other.yaml &&
        expect 4 '' 'give it a new version' deploy other.yaml "${at[@]}" &&
        expect 3 '' 'nothing' workflows show nothing "${at[@]}" &&
        expect 3 '' 'no such version' workflows activate fan-out 7 "${at[@]}"
}

jobs() {
    expect 0 - '' deploy "$root/examples/graphs" --activate "${at[@]}" && said &&
        expect 0 '^o1$' '' start offers.wanted north:=1 south:=2 west:=39 --id o1 "${at[@]}" && work &&
        expect 0 '^\{"sum":42\}$' '' wait o1 "${at[@]}" && said &&
        expect 0 '"status":"completed".*"output":\{"sum":42\},"state":"666660000000000"' '' wait o1 -o json "${at[@]}" && said &&
        expect 0 '^north,0,0 +201100000000001  6 completed  worker  quipu.echo' '' show o1 -o wide "${at[@]}" && said &&
        expect 0 '^  6 add \(hook, joins all of 3\)' '' graph "$root/examples/graphs/fan-out.yaml" --job o1 "${at[@]}" && said &&
        expect 0 '^o1 +offers.wanted +fan-out/1 +completed' '' ls -o wide "${at[@]}" &&
        expect 4 '' 'which is not in this file' graph "$root/examples/graphs/polling.yaml" --job o1 "${at[@]}" &&
        expect 0 '^r1$' '' start approval.asked request=r1 seconds:=3600 "${at[@]}" && said &&
        expect 0 '' delivered signal approval.given request=r1 answer=yes "${at[@]}" && work &&
        expect 0 '"granted":true' '' wait r1 "${at[@]}" && said &&
        expect 2 '' 'amount' start order.placed item=quipu "${at[@]}" &&
        expect 3 '' 'no deployed graph has a hook' signal no.such.topic a=b "${at[@]}" &&
        expect 3 '' - stats no.such.topic "${at[@]}" || return 1
    cat > sale.yaml << 'END'
app: { id: sales, version: '1', graphs: [{ subscribes: sale, activities: { t: { type: trigger, stats: { key: all } } } }] }
END
    expect 0 - '' deploy sale.yaml --activate "${at[@]}" && expect 0 - '' start sale --id s1 "${at[@]}" && work &&
        expect 0 '^jobs  1$' '' stats sale --range 10m "${at[@]}" &&
        expect 0 '^jobs  0$' '' stats sale --range 10m --end -1d "${at[@]}" &&
        expect 0 '^2026-01-31T09:05:00.000Z +0' '' stats sale --range 5m --end 2026-01-31T09:07:00Z "${at[@]}" && said &&
        expect 2 '' 'end' stats sale --end soon "${at[@]}"
}

# As long as a text may be, which no string of JSON is.
long_text() {
    { sed "s/id: fan-out/id: long/; s/offers.wanted/long.wanted/" "$root/examples/graphs/fan-out.yaml"
      head -c $((4 * 1024 * 1024)) /dev/zero | tr '\0' '#'; } | head -c $((4 * 1024 * 1024)) > long.yaml
    expect 0 '^long 1: deployed, active$' '' deploy long.yaml --activate "${at[@]}" && said &&
        expect 0 - '' workflows show long 1 "${at[@]}" && { cat long.yaml; echo; } | cmp - "$TMPDIR/out" || return 1
}

test_long_text() { on_both long_text; }
test_versions() { on_both versions; }
test_jobs() { on_both jobs; }

test_references() {
    mkdir parts && cp "$root/test/graph/good/chain.yaml" chain.yaml &&
        printf 'app:\n  id: r\n  version: "1"\n  graphs:\n    - subscribes: r\n      activities:\n        t: { type: trigger }\n        a: { $ref: "parts/a.yaml#/one" }\n      transitions:\n        t: [{ to: a }]\n' > r.yaml &&
        echo 'one: { type: hook }' > parts/a.yaml &&
        expect 0 '^r 1: graphs 1, activities 2' '' graph r.yaml &&
        expect 0 '^r 1: deployed' '' deploy r.yaml --db r.db || return 1
    # What is wrong is told where it was written, in the file and in its parts.
    printf 'two: 2\none:\n  type: hook\n  job:\n    maps:\n      é: "{nobody.output.data.x}"\n' > parts/a.yaml
    sed 's/  id: r/  id: r\n  slep: 5/; s/to: a }/to: a }, { to: zz }/' r.yaml > wrong.yaml
    expect 1 '' '^wrong.yaml:3:3: app has no key .slep.' graph wrong.yaml && matches '^wrong.yaml:11:30: .*zz' "$TMPDIR/err" &&
        matches '^parts/a.yaml:6:10: .*nobody' "$TMPDIR/err" && matches '^3 errors' "$TMPDIR/err" &&
        expect 1 '' '/parts/a.yaml:6:10: .*nobody' graph "$PWD/wrong.yaml" || return 1
    sed -i 's|parts/a.yaml|../a.yaml|' r.yaml && echo 'one: { type: hook }' > ../a.yaml
    expect 1 '' '^r.yaml:8:[0-9]+: .ref: .*outside of the directory' graph r.yaml || return 1
    sed -i 's|../a.yaml#/one|#/app|' r.yaml
    expect 1 '' 'round in a circle' graph r.yaml
}

# refers TO: the file of one activity that is written elsewhere
refers() {
    sed "s|parts/a.yaml#/one|$1|" whole.yaml > r.yaml
}

# Each way in which a reference leads nowhere, and pointers with odd names.
test_references_that_lead_nowhere() {
    printf 'app:\n  id: r\n  version: "1"\n  graphs:\n    - subscribes: r\n      activities:\n        t: { type: trigger }\n        a: { $ref: "parts/a.yaml#/one" }\n      transitions:\n        t: [{ to: a }]\n' > whole.yaml
    printf 'list: [no, { type: hook }]\na/b~c: { type: hook }\nbad: { type: bird }\n' > a.yaml && printf '{\n' > torn.yaml && ln -s /etc/hostname link.yaml
    refers 'a.yaml#/list/1' && expect 0 'activities 2' '' graph r.yaml && refers 'a.yaml#/a~1b~0c' && expect 0 'activities 2' '' graph r.yaml &&
        refers 'a.yaml#/list/2' && expect 1 '' "^r.yaml:8:20: .ref: there is no 'a.yaml#/list/2' \[ref_wrong\]" graph r.yaml &&
        refers 'a.yaml#/list/x' && expect 1 '' 'there is no' graph r.yaml && refers 'a.yaml#list' && expect 1 '' 'there is no' deploy r.yaml --db r.db &&
        refers 'gone.yaml' && expect 1 '' "'gone.yaml': No such file.*\[ref_wrong\]" graph r.yaml &&
        refers '/etc/hostname' && expect 1 '' "name it from the directory of the application's file \[ref_wrong\]" graph r.yaml &&
        refers 'link.yaml' && expect 1 '' "'link.yaml' is outside of the directory" graph r.yaml &&
        refers 'torn.yaml' && expect 1 '' 'torn.yaml:2:1: .*\[yaml_syntax\]' graph r.yaml &&
        refers 'a.yaml#/bad' && expect 1 '' '^a.yaml:3:14: .*\[type_unknown\]' graph r.yaml && [ ! -e r.db ]
}

test_new_and_dev() {
    expect 0 '^hello/greet.sh$' 'next: quipu dev hello' new hello &&
        expect 4 '' 'exists' new hello && expect 2 '' "not 'goodbye'" new x --from goodbye || return 1
    "$quipu" dev hello --exec hello.greet=hello/greet.sh --listen 127.0.0.1:0 > dev.out 2> dev.err &
    servers+=("$!")
    for _ in $(seq 200); do grep -q 'next: quipu start hello' dev.out && break; sleep 0.05; done
    expect 0 '^\{"greeting":"Hello, Ada"\}$' '' start hello name=Ada --wait --timeout 30s || { cat dev.out dev.err; return 1; }
    sed -i 's/greeting:/welcome:/' hello/hello.yaml
    for _ in $(seq 200); do grep -q 'hello 1-[0-9a-f]* is active' dev.out && break; sleep 0.05; done
    expect 0 '^\{"welcome":"Hello, Ada"\}$' '' start hello name=Ada --wait --timeout 30s || { cat dev.out dev.err; return 1; }
    sed -i 's/trigger/bird/' hello/hello.yaml
    for _ in $(seq 200); do grep -q 'what was active stays so' dev.err && break; sleep 0.05; done
    matches 'hello.yaml:[0-9]+:[0-9]+: ' dev.err && expect 0 welcome '' start hello name=Eve --wait --timeout 30s
}

# until_said PATTERN FILE: waits until a line of the file matches
until_said() {
    for _ in $(seq 200); do grep -qE "$1" "$2" && return 0; sleep 0.05; done
    echo "no '$1' in $2:"; cat "$2"; return 1
}

# one_app FILE VERSION KEY: a graph of the application 'one' whose jobs have the key
one_app() {
    printf 'app:\n  id: one\n  version: "%s"\n  graphs:\n    - subscribes: one\n      activities:\n        t: { type: trigger, job: { maps: { %s: true } } }\n' "$2" "$3" > "$1.new" &&
        mv "$1.new" "$1" # as editors do
}

# The directory and a file may be links; what was gone and comes back is deployed again.
test_dev_links_and_returns() {
    mkdir real shelf && ln -s real linked && one_app shelf/one.yaml 1 first && ln -s ../shelf/one.yaml real/one.yaml || return 1
    "$quipu" dev linked --listen 127.0.0.1:0 >> dev.out 2> dev.err &
    servers+=("$!")
    until_said 'one 1 is active' dev.out && expect 0 '"first":true' '' start one --wait --timeout 30s &&
        one_app shelf/one.yaml 2 second && until_said 'one 2 is active' dev.out &&
        expect 0 '"second":true' '' start one --wait --timeout 30s &&
        rm real/one.yaml && one_app real/other.yaml 3 third && until_said 'one 3 is active' dev.out &&
        rm real/other.yaml && : > dev.out && ln -s ../shelf/one.yaml real/one.yaml && until_said 'one 2 is active' dev.out &&
        expect 0 '"second":true' '' start one --wait --timeout 30s
}

test_examples_in_c() {
    local program=$build/examples/graph_workers saga=$root/examples/graphs/order-saga.yaml
    "$program" s.db "$saga" order.placed '{"item":"quipu","amount":42}' > out && matches '"outcome":"shipped"' out &&
        "$program" s.db "$saga" order.placed '{"item":"quipu","amount":420}' > out && matches '^stock.release' out &&
        matches '"outcome":"refused","why":"the card is good for 100"' out &&
        "$program" s.db "$root/examples/graphs/approval.yaml" approval.asked '{"request":"r","seconds":1}' > out && matches 'nobody answered' out &&
        "$program" s.db "$root/examples/graphs/polling.yaml" poll.begin '{"wanted":3}' > out && matches '"looked":3' out &&
        expect 0 '' ' 0 errors, 0 warnings' fsck s.db
}

run_tests
