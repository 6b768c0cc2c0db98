#!/bin/bash
# test_npm_oracle.sh - what npm's own packages say is what the package type npm says
#
#   semver   texts and pairs of a seed (in the short lane 20,000, in the long one 1,000,000; QP_SEED repeats them): ranges,
#            versions, their order and what admits what are those of the npm package `semver`
#
# npm's packages are installed into the test's own directory. There is no way to skip.
set -u
cd "$(dirname "$0")/../.."
here=$PWD/test/carto/npm
tool=$PWD/${QP_BUILD:-build}/test/tools/npm
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

if ! (cd "$dir" && npm install --no-audit --no-fund --silent --prefix "$dir" npm-pick-manifest@11 npm-package-arg@14 semver@7 > npm.log 2>&1); then
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

finish
