#!/bin/bash
# test_npm_oracle.sh - what npm's own packages say is what the package type npm says
#
#   semver   texts and pairs of a seed (in the short lane 20,000, in the long one 1,000,000; QP_SEED repeats them): ranges,
#            versions, their order and what admits what are those of the npm package `semver`
#   picks    six roots: nodes and edges are those that `npm-pick-manifest` picks from the same packuments, as of a date
#   install  four roots: the same versions as `npm install --package-lock-only --before DATE --legacy-peer-deps`, but for
#            what npm/installed.js allows
#   locks    a lock with aliases, peers, optional and dev dependencies: nodes and edges are those of `npm ls --all`
#
# The short lane has one root of each. Packuments are fetched from the registry that the npm client is configured for. npm's packages are installed into the test's own directory. There is no way to skip.
set -u
cd "$(dirname "$0")/../.."
here=$PWD/test/carto/npm
tool=$PWD/${QP_BUILD:-build}/test/tools/npm
quipu=$PWD/${QP_BUILD:-build}/quipu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export LC_ALL=C
seed=${QP_SEED:-$(( $(date +%s) % 1000000 ))}
echo "seed $seed (QP_SEED=$seed repeats it)"
passed=0
failed=0
torture=$([ "${QP_LANE:-check}" = torture ] && echo 1 || echo 0)

ok() { passed=$((passed + 1)); }
bad() { echo "FAILED: $*"; failed=$((failed + 1)); }
finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
    exit
}

if ! (cd "$dir" && npm install --no-audit --no-fund --silent --prefix "$dir" npm-pick-manifest@11 npm-package-arg@14 semver@7 pacote@21 > npm.log 2>&1); then
    cat "$dir/npm.log"
    bad "npm cannot install its own packages"
    finish
fi
export NODE_PATH=$dir/node_modules

# --------------------------------------------------------------------------------------------------- semver

rounds=$([ "$torture" = 1 ] && echo 50 || echo 1)
for ((round = 0; round < rounds; round++)); do
    node "$here/semver_pairs.js" $((seed + round)) 20000 "$dir/pairs" "$dir/answers" || bad "semver_pairs.js fails"
    "$tool" semver < "$dir/pairs" > "$dir/got" || bad "the tool fails"
    if cmp -s "$dir/answers" "$dir/got"; then
        ok
    else
        bad "seed $((seed + round)): what npm says (<) and what we say (>)"
        diff <(paste "$dir/pairs" "$dir/answers") <(paste "$dir/pairs" "$dir/got") | head -20 | cat -v
    fi
done

# ---------------------------------------------------------------------------------------------------- picks

before=2024-06-01
six=(express)
four=(express)
[ "$torture" = 0 ] || { six=(express eslint webpack jest mocha vite); four=(express eslint webpack jest); }
ORACLE_REGISTRY=$(npm config get registry 2> /dev/null)
export ORACLE_REGISTRY

for root in "${six[@]}"; do
    node "$here/pick.js" "$dir/saved" $before "$root" > "$dir/$root.graph" || { bad "npm-pick-manifest: $root"; continue; }
    "$quipu" carto "npm:$root" --packuments "$dir/saved" --before $before --db "$dir/picks.db" > "$dir/$root.json" 2> "$dir/err" ||
        { cat "$dir/err"; bad "quipu carto npm:$root"; continue; }
    if node "$here/compare.js" "$dir/$root.json" "$dir/$root.graph" > "$dir/differences"; then
        tail -1 "$dir/differences" | sed "s/^/picks of $root: /"
        ok
    else
        cat "$dir/differences"
        bad "picks of $root are not those of npm"
    fi
done
! grep -rlE 'https?://[^" ]*/-/' "$dir/saved" || bad "a saved packument names where it is from"

# --------------------------------------------------------------------------------------------------- install

# make_lock DIR: npm's lock of the package.json in DIR, and the graph that npm ls prints of it
make_lock() {
    (cd "$1" && npm install --package-lock-only --before $before --ignore-scripts --no-audit --no-fund --silent --legacy-peer-deps > npm.log 2>&1 ||
        { cat npm.log; exit 1; }
    npm ls --all --package-lock-only --json --legacy-peer-deps > ls.json 2> /dev/null
    node "$here/ls.js" package-lock.json < ls.json > ls.graph)
}

for root in "${four[@]}"; do
    version=$(node -e 'console.log(JSON.parse(require("fs").readFileSync(process.argv[1])).nodes[0].version)' "$dir/$root.json")
    mkdir "$dir/in.$root"
    echo "{\"name\":\"project\",\"version\":\"1.0.0\",\"dependencies\":{\"$root\":\"$version\"}}" > "$dir/in.$root/package.json"
    make_lock "$dir/in.$root" || { bad "npm install $root"; continue; }
    if node "$here/installed.js" "$dir/$root.json" "$dir/in.$root/ls.graph" "$root@$version" > "$dir/differences"; then
        tail -1 "$dir/differences" | sed "s/^/install of $root: /"
        ok
    else
        cat "$dir/differences"
        bad "npm would install other versions of $root"
    fi
done

# ----------------------------------------------------------------------------------------------------- locks

more=', "acorn-jsx": "^5"}, "devDependencies": {"ms": "^2"'
[ "$torture" = 0 ] || more=', "vite": "^5"}, "devDependencies": {"jest": "^29", "eslint": "^8"'
mkdir "$dir/lock"
echo "{\"name\":\"project\",\"version\":\"1.0.0\",\"dependencies\":{\"express\":\"^4\",\"old\":\"npm:ms@2.0.0\"$more},\"optionalDependencies\":{\"fsevents\":\"^2\"}}" > "$dir/lock/package.json"
if make_lock "$dir/lock" &&
    (cd "$dir/lock" && "$quipu" carto npm:./package-lock.json --peers --scope build_time --db ../lock.db > result.json 2> err || { cat err; exit 1; }); then
    if node "$here/compare.js" "$dir/lock/result.json" "$dir/lock/ls.graph" any > "$dir/differences"; then
        tail -1 "$dir/differences" | sed 's/^/lock: /'
        ok
    else
        cat "$dir/differences"
        bad "a lock is not what npm ls says of it"
    fi
else
    bad "a lock cannot be made or read"
fi

finish
