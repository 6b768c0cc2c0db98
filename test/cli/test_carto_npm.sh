#!/bin/bash
# test_carto_npm.sh - packages of npm: from a registry, with all that it may answer; from saved packuments, a package.json and a lock
#
# The registry is one of the test's own (registry.js), which the npm client is told of by its variables.
set -u
. test/cli/lib.sh

# A fresh registry for each test; $registry_log has its requests.
before_each() {
    registry_log=$PWD/requests
    : > "$registry_log"
    node "$root/test/cli/registry.js" "$registry_log" > address 2> registry.err &
    servers+=("$!")
    eventually grep -q http address || { cat registry.err; return 1; }
    npm_config_registry=$(cat address)
    export npm_config_registry npm_config_noproxy=127.0.0.1,127.0.0.2 npm_config_userconfig=$PWD/npmrc npm_config_globalconfig=$PWD/global npm_config_cache=$PWD/cache
    touch npmrc global
}

# What is fetched is kept: nothing is asked again for a while, and not at all by another traversal of the same date.
test_fetched() {
    expect 0 '"counts":\{"nodes":3,"edges":2' '' carto npm:app --before 2024-01-01 --db a.db &&
        [ "$(sort "$registry_log")" = "$(printf 'GET /%s 200\n' @scope/part app lib)" ] || { cat "$registry_log"; return 1; }
    cp "$TMPDIR/out" first
    expect 0 - '' carto npm:app --before 2024-01-01 --id again --db a.db && cmp first "$TMPDIR/out" && [ "$(wc -l < "$registry_log")" -eq 3 ] &&
        expect 0 'pkg:npm/app@1.0.0' '' carto npm:app --before 2021-01-01 --db a.db && grep -q 'pkg:npm/%40scope/part@1.0.0' "$TMPDIR/out" &&
        expect 0 '^  npm:lib@1.1.0' '' carto npm:app npm:moved -o tree --db b.db && grep -qx 'npm:moved@1.1.0' "$TMPDIR/out" &&
        expect 0 'pkg:npm/lib@1.1.0  \(depends \^1, runtime\)' '' carto why npm:app npm:lib --before 2024-01-01 --db a.db
}

# says PACKAGE CODE SENTENCE: the result in $TMPDIR/out has this error of it
says() {
    grep -Eq "\"id\":\"pkg:npm/$1\",\"code\":\"$2\",\"message\":\"'npm:$1': [^\"]*$3" "$TMPDIR/out" || { echo "$1: not $2 $3"; cat "$TMPDIR/out"; return 1; }
}

# Every answer that is no packument has a sentence, which says what to look at. Of a dependency it is an error of its node, and the
# traversal goes on; of a root it ends the request.
test_bad_answers() {
    expect 0 'pkg:npm/lib@1.1.0' '10 items have errors' carto npm:needs --db a.db &&
        says absent METADATA_MISSING 'the registry has no such package' &&
        says denied METADATA_ERROR 'the registry refuses us: look at the token in npmrc, and at npm login; it answered 401' &&
        says forbidden METADATA_ERROR 'it answered 403' &&
        says teapot METADATA_ERROR 'unexpected status 418' &&
        says page METADATA_ERROR 'a page for people \(HTML\) in place of a packument: look at npm config get registry' &&
        says text METADATA_ERROR 'the packument cannot be read' &&
        says list METADATA_ERROR 'the packument cannot be read' &&
        says other METADATA_ERROR 'the registry answered with another package' &&
        says away METADATA_ERROR 'redirects to another host, which is refused: set the registry of npm to that one, if it is meant' &&
        says circle METADATA_ERROR 'the registry redirects in a circle' &&
        expect 10 '' "METADATA_ERROR: item 0 \(npm:timeless\): .*has no times of its versions, which the option before needs: leave it out, or use a registry that has them" carto npm:timeless --before 2024-01-01 --db a.db
}

# What may pass is asked again: too many requests, and what a server fails of.
test_asked_again() {
    expect 0 'pkg:npm/busy@1.1.0' '' carto npm:busy npm:broken --db a.db && grep -q 'pkg:npm/broken@1.1.0' "$TMPDIR/out" &&
        [ "$(grep -c busy "$registry_log")" -eq 3 ] && [ "$(grep -c broken "$registry_log")" -eq 3 ]
}

# What is wrong with the request itself is refused before anything is asked.
test_bad_requests() {
    expect 2 '' "'a/../x' is not a name of a package of npm: allowed are NAME and @SCOPE/NAME" carto npm:a/../x --db a.db &&
        expect 2 '' "'a/../x' is not a name of a package of npm" carto pkg:npm/a/../x --db a.db &&
        expect 2 '' "'.x' is not a name of a package of npm" carto npm:.x --db a.db &&
        expect 2 '' "'github:a/b' for 'npm:lib' is neither a version, nor a range, nor a dist-tag" carto npm:lib@github:a/b --db a.db &&
        expect 2 '' 'before' carto npm:lib --before yesterday --db a.db &&
        expect 2 '' 'before' carto npm:lib --before 2024-02-31 --db a.db &&
        expect 2 '' "'none/': No such file" carto npm:lib --packuments none --db a.db && mkdir empty &&
        expect 2 '' "there is no NAME.json in it" carto npm:lib --packuments empty --db a.db && [ ! -s "$registry_log" ] &&
        expect 10 '' "OVERCONSTRAINED_VERSION: .*no version of 'npm:lib' is '\^9'; the latest is 1.1.0" carto npm:lib@^9 --db a.db
}

# Packuments that were saved, a package.json with overrides, and a lock: no registry is asked.
test_files() {
    mkdir -p saved/@scope
    echo '{"name":"lib","dist-tags":{"latest":"2.0.0"},"versions":{"1.0.0":{},"2.0.0":{"dependencies":{"@scope/part":"*"}}}}' > saved/lib.json
    echo '{"name":"@scope/part","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{}}}' > saved/@scope/part.json
    echo '{"name":"mine","version":"0.1.0","dependencies":{"lib":"^1"},"devDependencies":{"@scope/part":"1"},"overrides":{"lib":"2.0.0"}}' > package.json
    echo '{"name":"mine","version":"0.1.0","lockfileVersion":3,"packages":{"":{"name":"mine","version":"0.1.0","dependencies":{"lib":"^1"}},"node_modules/lib":{"version":"1.0.0"}}}' > package-lock.json
    expect 0 '"nodes":2,"edges":1' '' carto npm:lib --packuments saved --db a.db &&
        expect 0 '^npm:@scope/part@1.0.0$' '' carto pkg:npm/%40scope/part@1.0.0 --packuments saved -o tree --db a.db &&
        expect 0 'pkg:npm/lib@2.0.0' '' carto npm:./package.json --packuments saved --scope build_time --db a.db && grep -q '"nodes":3' "$TMPDIR/out" &&
        expect 0 'pkg:npm/mine@0.1.0.*pkg:npm/lib@1.0.0' '' carto npm:./package-lock.json --db a.db &&
        expect 2 '' 'without --packuments' carto npm:./package-lock.json --packuments saved --db a.db || return 1
    echo '{"name":"lib",' > saved/lib.json
    expect 2 '' "'saved/lib.json': " carto npm:lib --packuments saved --db a.db && echo '{"name":"x"}' > saved/lib.json &&
        expect 2 '' "'saved/lib.json': " carto npm:lib --packuments saved --db a.db && echo '{"lockfileVersion":1}' > package-lock.json &&
        expect 2 '' "'./package-lock.json': " carto npm:./package-lock.json --db a.db && echo '[]' > package.json &&
        expect 2 '' 'it is neither a package.json nor a package-lock.json' carto npm:./package.json --db a.db && [ ! -s "$registry_log" ]
}

run_tests
