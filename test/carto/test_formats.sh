#!/bin/bash
# test_formats.sh - dot, mermaid, CycloneDX and SPDX of traversals are what their tools read, and the same bytes after kills
#
# graphviz reads every picture. In the long lane CycloneDX's own library validates the documents strictly and packageurl-js reads
# every id; npm installs both into the test's directory. The npm registry has no validator of SPDX 2.3: formats.js checks what the
# specification requires of members, ids and relationships.
set -u
. test/cli/lib.sh
seed=${QP_SEED:-$RANDOM}
echo "seed $seed (QP_SEED=$seed repeats it)"
RANDOM=$seed
formats="json jsonl tree dot mermaid cyclonedx spdx"

# Epochs, names with a plus, a virtual name with two providers, one that nothing provides, cycles, and words that pictures
# give a meaning to.
make_list() {
    cat > Packages <<'LIST'
Package: shop
Version: 1:2.0+b1~rc
Architecture: amd64
Depends: libstdc++6 (>= 2), mailer | mta, broken

Package: libstdc++6
Version: 12.2.0-14
Architecture: amd64
Depends: libc (>> 2.3)

Package: libc
Version: 2.36
Architecture: amd64
Depends: libstdc++6

Package: postman
Version: 3
Architecture: amd64
Provides: mta
Depends: libc, mta

Package: pigeon
Version: 4
Architecture: amd64
Provides: mta

Package: broken
Version: 1
Architecture: amd64
Depends: gone (= 1)

LIST
    awk 'BEGIN {
        for (i = 0; i < 300; i++) {
            printf "Package: p%d\nVersion: 1.%d\nArchitecture: amd64\nDepends: p%d, p%d | mta, p%d (>= 1)\n\n", i, i, (i + 1) % 300, (i * 7 + 3) % 300, (i * 3) % 300
        }
    }' >> Packages
}

before_each() {
    make_list && expect 0 '^deb@' '' carto import Packages --db a.db
}

# write DIRECTORY ID: every format of a traversal that has ended
write() {
    local format
    mkdir -p "$1"
    for format in $formats; do
        "$quipu" carto result "$2" --db a.db -o "$format" > "$1/$format" || { echo "no $format of $2"; return 1; }
    done
}

# graphviz has every node and edge of the JSON.
check_picture() {
    nop -p "$1/dot" > /dev/null || { echo "nop refuses $1/dot"; return 1; }
    gc -n -e "$1/dot" | awk '{ print $1, $2 }' > counted
    jq -r '"\(.counts.nodes) \([.edges[]] | length)"' "$1/json" | diff - counted
}

check() {
    write "$1" "$1" && check_picture "$1" && node "$root/test/carto/formats.js" "$1" ${modules:+"$modules"}
}

install_packages() {
    modules=$TMPDIR/npm
    mkdir -p "$modules" && (cd "$modules" && npm install --silent --no-audit --no-fund --omit=optional --prefix . \
        @cyclonedx/cyclonedx-library@6 packageurl-js@1 ajv@8 ajv-formats@3 ajv-formats-draft2019@1) > npm.log 2>&1 ||
        { cat npm.log; return 1; }
}

test_tools_read_them() {
    local closure
    [ "${QP_LANE:-check}" != torture ] || install_packages || return 1
    for closure in A F S; do
        "$quipu" carto deb:shop --closure $closure --id "shop$closure" --db a.db > /dev/null 2>&1 && check "shop$closure" || return 1
    done
    "$quipu" carto deb:p1 deb:mta --closure A --id all --db a.db > /dev/null && check all &&
        "$quipu" carto deb:p1 --depth 2 --id cut --db a.db > /dev/null && check cut &&
        "$quipu" carto deb:shop -x 'deb:libc' --id without --db a.db > /dev/null 2>&1 && check without &&
        [ "$(jq -r '[.compositions[].aggregate] | sort | join(" ")' without/cyclonedx)" = 'incomplete unknown' ] &&
        grep -q '^%% [0-9]* edges: Mermaid draws at most 500' all/mermaid && grep -q '^// MAX_DEPTH_REACHED' cut/dot
}

# A process that is killed at any moment, then the same id again: the bytes of every format.
test_same_bytes_after_kills() {
    local n pid
    echo '{"id": "{$item.purl}", "asked": "{$item.requirement}", "errors": "{$item.errors}"}' > mapping
    "$quipu" carto deb:p1 deb:shop --closure A --page 5 --format mapping --id calm --db a.db > /dev/null 2>&1 &&
        formats="$formats own" write first calm || return 1
    for n in 1 2 3 4; do
        "$quipu" carto deb:p1 deb:shop --closure A --page 5 --format mapping --id k --db a.db > /dev/null 2>&1 &
        pid=$!
        sleep "0.0$((RANDOM % 8))"
        kill -9 "$pid" 2> /dev/null
        wait "$pid" 2> /dev/null
    done
    "$quipu" carto deb:p1 deb:shop --closure A --page 5 --format mapping --id k --db a.db > /dev/null 2>&1
    formats="$formats own" write other k && diff -r first other
}

run_tests
