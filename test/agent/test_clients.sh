#!/bin/bash
# test_clients.sh - workflows of published clients run unchanged: the npm package `zenaton` 0.4.10, 0.5.2 and 0.8.0, with the runners of
# examples/agent
#
#   examples   each of clients/examples.js with each client: the tasks in their order, and the final arrays, are those of the list
#   kills      the same while the server is killed with SIGKILL: in the long lane each example 20 times, in the short one two of them 3 times
#   load       instances of the sequential example with a runner of each version beside each other (1,000; in the short lane 30)
#
# The packages are installed by npm into the test's own directory, once per run; nothing of them is kept. There is no way to skip.
set -u
cd "$(dirname "$0")/../.."
here=$PWD/test/agent/clients
build=$(realpath "${QP_BUILD:-build}")
kills=3 chosen='event,automatic retry' count=30
QUIPU=$build/quipu
[ "${QP_LANE:-check}" != torture ] || kills=20 chosen='' count=1000
export QUIPU
export QP_SEED=${QP_SEED:-$(( $(date +%s) % 1000000 ))}
echo "QP_SEED=$QP_SEED"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0
failed=0

finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
    exit
}
for tool in node npm; do
    command -v $tool > /dev/null || { echo "FAILED: $tool is missing; Debian's package nodejs, or one with npm in it, has it"; failed=1; finish; }
done

# install SHORT VERSION
install() {
    mkdir -p "$dir/packages/$1"
    npm install --no-audit --no-fund --no-package-lock --silent --prefix "$dir/packages/$1" "zenaton@$2" > "$dir/npm-$1.log" 2>&1 || {
        cat "$dir/npm-$1.log"
        return 1
    }
}
pids=()
for version in 0.4.10 0.5.2 0.8.0; do
    install "${version%.*}" "$version" &
    pids+=($!)
done
for pid in "${pids[@]}"; do
    wait "$pid" || { echo 'FAILED: npm cannot install the package zenaton'; failed=1; finish; }
done

# report FILE: what a part has printed; its last line counts
report() {
    local ok bad
    cat "$1"
    read -r ok _ bad _ < <(tail -n 1 "$1" | sed 's/,//')
    passed=$((passed + ${ok:-0})) failed=$((failed + ${bad:-1}))
}
test_examples() {
    local version
    for version in 0.4 0.5 0.8; do
        node "$here/drive.js" $version "$dir/packages/$version" "$dir/$version" $kills ${chosen:+"$chosen"} > "$dir/out-$version" 2>&1 &
    done
    wait
    for version in 0.4 0.5 0.8; do
        report "$dir/out-$version"
    done
}
test_load() {
    node "$here/load.js" "$dir/packages" "$dir/load" $count > "$dir/out-load" 2>&1
    report "$dir/out-load"
}
test_examples
test_load
finish
