#!/bin/bash
# test_users.sh - files of other users on the command line: warnings, references of parts, pending starts, escalations,
# publications, statistics of one bucket
set -u
. test/cli/lib.sh

# app ID GRAPHS: an application in ID.yaml
app() {
    printf 'app:\n  id: %s\n  version: "1"\n  graphs:\n%s\n' "$1" "$2" > "$1.yaml"
}

# asks METHOD PATH [BODY]: over HTTP; the body of the answer is in $TMPDIR/out
asks() {
    curl -s --max-time 60 -X "$1" "$url$2" -H 'Content-Type: application/json' ${3+-d "$3"} > "$TMPDIR/out"
}

test_warnings() {
    app w '    - { subscribes: w, output: { schema: { type: object, properties: { a: { type: any } }, patternProperties: { x: {} } } },
        activities: { t: { type: trigger, telemetry: { a: 1 }, job: { maps: { a: 1 } } } } }
    - { subscribes: v, output: { schema: { type: object, properties: { a: { type: any } } } }, activities: { u: { type: trigger, job: { maps: { b: 1 } } } } }'
    expect 0 '^w 1: graphs 2' "^w.yaml:6:43: warning: the key 'telemetry' of an activity is ignored \[key_ignored\]" graph w.yaml &&
        matches "^w.yaml:5:[0-9]+: note: 'patternProperties' of schemas is accepted, and not checked" "$TMPDIR/err" &&
        ! grep -q map_undeclared "$TMPDIR/err" &&
        expect 0 '^w 1: graphs 2' "^w.yaml:7:.* warning: the schema has no property 'b' \[map_undeclared\]" graph w.yaml --strict &&
        serve --no-auth && expect 0 '^w 1: deployed' 'key_ignored' deploy w.yaml --activate --server "$url" || return 1
    curl -s -H 'Content-Type: application/yaml' --data-binary "@w.yaml" "$url/v1/workflows" > "$TMPDIR/out"
    matches '"warnings":\[\{"line":5,"column":[0-9]+,"code":"schema_unchecked",.*"code":"key_ignored"' "$TMPDIR/out"
}

# A file is named from where it is referred to, and else from the root; always inside of the root.
test_references_of_parts() {
    mkdir -p parts/deep
    app r '    - { subscribes: r, activities: { t: { type: trigger }, a: { $ref: "parts/a.yaml#/one" } }, transitions: { t: [{ to: a }] } }'
    printf 'one:\n  type: hook\n  job: { maps: { own: { $ref: "deep/b.yaml#/b" }, up: { $ref: "deep/c.yaml" }, root: { $ref: "common.yaml#/c" } } }\n' > parts/a.yaml
    printf 'b: beside\n' > parts/deep/b.yaml
    printf '{ $ref: "../../common.yaml#/c" }\n' > parts/deep/c.yaml
    printf 'c: common\n' > common.yaml
    expect 0 '^r 1: deployed' '' deploy r.yaml --activate --db r.db && expect 0 '^j$' '' start r --id j --db r.db && expect 0 - '' run --db r.db &&
        expect 0 '^\{"own":"beside","up":"common","root":"common"\}$' '' wait j --db r.db || return 1
    printf '{ $ref: "../../../out.yaml#/c" }\n' > parts/deep/c.yaml && cp common.yaml ../out.yaml
    expect 1 '' "outside of the directory of the application's file \[ref_wrong\]" graph r.yaml && rm ../out.yaml
}

test_pending() {
    app p '    - { subscribes: p, activities: { t: { type: trigger, job: { maps: { a: 1 } } } } }'
    expect 0 - '' deploy p.yaml --activate --db p.db && expect 0 '^j$' '' start p --pending --id j --db p.db &&
        expect 0 - '' run --db p.db && expect 0 '"status":"paused"' '' show j -o json --db p.db &&
        expect 0 - '' resume j --db p.db && expect 0 - '' run --db p.db && expect 0 '^\{"a":1\}$' '' wait j --db p.db &&
        expect 0 '^k$' '' start quipu.echo --pending --id k n:=1 --db p.db && expect 0 - '' run --db p.db &&
        expect 0 '"status":"paused"' '' show k -o json --db p.db && expect 0 - '' resume k --db p.db && expect 0 - '' run --db p.db &&
        expect 0 '^\{"n":1\}$' '' wait k --db p.db
}

test_escalation() {
    app e "    - subscribes: e
      activities:
        t: { type: trigger }
        ask:
          type: hook
          escalation: { role: '{t.output.data.role}', type: approval, priority: 3, metadata: { a: [1] }, envelope: { x: '{t.output.data.x}' } }
      transitions: { t: [{ to: ask }] }
      hooks: { ok: [{ to: ask, conditions: { match: [{ expected: '{\$job.metadata.jid}', actual: '{\$self.hook.data.id}' }] } }] }"
    serve --no-auth && expect 0 - '' deploy e.yaml --activate --server "$url" &&
        expect 0 - '' start e --id j role=boss x:=7 --server "$url" && expect 0 - '' start e --id k role=clerk --server "$url" &&
        expect 0 '^j$' '' ls -q --where 'attr.escalation.role = "boss" and attr.escalation.priority = "3"' --server "$url" &&
        asks GET /v1/jobs/j/activities &&
        matches '"escalation":\{"role":"boss","type":"approval","priority":3,"metadata":\{"a":\[1\]\},"envelope":\{"x":7\}\}' "$TMPDIR/out" &&
        expect 0 'ask .*waiting .* for the signal ok.*, escalated to boss' '' show j --server "$url" &&
        expect 0 - - signal ok id=j --server "$url" && expect 0 - '' wait j --server "$url" &&
        expect 0 '' '' ls -q --where 'attr.escalation.role = "boss"' --server "$url" && asks GET /v1/jobs/j/activities &&
        matches '"escalation":\{"role":"boss"' "$TMPDIR/out" &&
        expect 0 - '' start e --id l 'role:={"a":1}' --server "$url" && asks GET /v1/jobs/l/activities && matches '"role":\{"a":1\}' "$TMPDIR/out"
}

test_duplicate_id() {
    app d "    - { subscribes: d, activities: { t: { type: trigger, stats: { id: '{\$self.output.data.id}' } } } }"
    serve --no-auth && expect 0 - '' deploy d.yaml --activate --server "$url" && expect 0 '^p7$' '' start d id=p7 n:=1 --server "$url" &&
        expect 4 '' "'p7'.*started with another input" start d id=p7 n:=2 --server "$url"
}

test_one_bucket() {
    app b "    - { subscribes: b, activities: { t: { type: trigger, stats: { key: all, granularity: infinity } } } }"
    expect 0 - '' deploy b.yaml --activate --db b.db && expect 0 - '' start b --id j --db b.db && expect 0 - '' run --db b.db &&
        expect 0 '^1970-01-01T00:00:00.000Z +1' '' stats b --range 1d --db b.db
}

# An error's output and a success's code, as a worker elsewhere says them.
test_replies() {
    local token
    app a "    - subscribes: a
      activities:
        t: { type: trigger }
        w: { type: worker, topic: do.it }
        bad: { type: hook, job: { maps: { why: '{w.output.data.message}', n: '{w.output.data.n}' } } }
        made: { type: hook, job: { maps: { n: '{w.output.data.n}' } } }
      transitions: { t: [{ to: w }], w: [{ to: bad, conditions: { code: 422 } }, { to: made, conditions: { code: 201 } }] }"
    serve --no-auth && expect 0 - '' deploy a.yaml --activate --server "$url" || return 1
    for reply in '"status":"error","code":422,"output":{"message":"no","n":1}' '"code":201,"output":{"n":2}'; do
        asks POST /v1/jobs '{"topic":"a"}' && asks POST /v1/work '{"worker":"w","topics":["do.it"],"wait":"20s"}' &&
            token=$(sed -n 's/.*"token":"\([^"]*\)".*/\1/p' "$TMPDIR/out") && asks POST /v1/work "{\"worker\":\"w\",\"results\":[{\"token\":\"$token\",\"code\":202}]}" &&
            matches 'that of a success must be 100 to 599' "$TMPDIR/out" &&
            asks POST /v1/work "{\"worker\":\"w\",\"results\":[{\"token\":\"$token\",$reply}]}" && matches '"status":"ok"' "$TMPDIR/out" || return 1
    done
    eventually test "$("$quipu" ls -q --where 'status = completed' --server "$url" | wc -l)" = 2
    expect 0 '^\{"n":2\}$' '' wait "$("$quipu" ls -q --server "$url" | sed -n 1p)" --server "$url" &&
        expect 0 '^\{"why":"no","n":1\}$' '' wait "$("$quipu" ls -q --server "$url" | sed -n 2p)" --server "$url"
}

# What is published is heard: by a graph of another application, by streams of the topic and of one job, which resume.
test_publications() {
    local id
    app q "    - subscribes: q
      publishes: told
      activities:
        t: { type: trigger, emit: true, job: { maps: { n: '{\$self.output.data.n}' } } }
        ask: { type: hook, job: { maps: { end: '{\$self.hook.data.end}' } } }
      transitions: { t: [{ to: ask }] }
      hooks: { go: [{ to: ask, conditions: { match: [{ expected: '{\$job.metadata.jid}', actual: '{\$self.hook.data.id}' }] } }] }"
    app h "    - { subscribes: told, activities: { heard: { type: trigger, job: { maps: { n: '{\$self.output.data.n}', end: '{\$self.output.data.end}' } } } } }"
    serve --no-auth && expect 0 - '' deploy q.yaml --activate --server "$url" && expect 0 - '' deploy h.yaml --activate --server "$url" || return 1
    curl -sN -H 'Accept: text/event-stream' "$url/v1/topics/told/events" > all & servers+=("$!")
    expect 0 - '' start q --id j n:=1 --server "$url" && expect 0 - '' start q --id other n:=2 --server "$url" || return 1
    curl -sN -H 'Accept: text/event-stream' "$url/v1/topics/told/events/j" > one & servers+=("$!")
    eventually grep -q '"code":202.*"data":{"n":1}' one && expect 0 - - signal go id=j end=now --server "$url" && eventually grep -q 'event: end' one &&
        [ "$(grep -c '^event: published' one)" = 2 ] && matches '"code":200,"topic":"told","data":\{"n":1,"end":"now"\}' one &&
        ! grep -q '"job":"other"' one || { cat one; return 1; }
    # From the first event on, the rest comes again.
    id=$(sed -n 's/^id: //p' one | head -1)
    curl -sN --max-time 20 -H "Last-Event-ID: $id" -H 'Accept: text/event-stream' "$url/v1/topics/told/events/j" > rest
    [ "$(grep -c '^event: published' rest)" = 1 ] && eventually grep -q '"job":"j".*"code":200' all && grep -q '"job":"other","seq"' all &&
        ! grep -q '^event: \(entered\|answered\)' all || { cat all rest; return 1; }
    expect 0 'published on told, and more will come' '' history j --server "$url" && matches 'published on told, at its end' "$TMPDIR/out" || return 1
    # Each publication has started one job of the graph that has its name.
    eventually test "$("$quipu" ls -q --where 'workflow = told and status = completed' --server "$url" | wc -l)" = 3
    asks GET '/v1/topics/told/events?limit=100' && [ "$(grep -o '"kind":"published"' "$TMPDIR/out" | wc -l)" = 3 ] &&
        asks GET /v1/topics/told/events/j && [ "$(grep -o '"kind":"published"' "$TMPDIR/out" | wc -l)" = 2 ] &&
        asks GET /v1/topics/told/events/nobody && matches '"status":404' "$TMPDIR/out" &&
        asks GET '/v1/topics/quipu:x/events' && matches '"status":400' "$TMPDIR/out"
}

run_tests
