#!/bin/bash
# test_install.sh - programs of other people build and run against the installed library, static and shared
#
# They know what pkg-config says, and nothing else: no file of the source tree, and no header but quipu.h.
set -eu
build=${QP_BUILD:-build}
root=$TMPDIR/root
passed=0 failed=0

# check NAME COMMAND...: one test
check() {
    local name=$1
    shift
    if "$@" > "$TMPDIR/out" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$name failed:"
        tail -n 20 "$TMPDIR/out"
    fi
}

make -s install B="$build" DESTDIR="$root" PREFIX=/usr > /dev/null
cp -a "$root" "$root.static"
rm "$root.static"/usr/lib/libquipu.so*

cat > "$TMPDIR/names.c" << 'END'
#include <quipu.h>
#include <stdio.h>
/* Names that the library uses inside belong to its user: this must not clash. */
int err_set(void);
int err_set(void) { return 0; }
int main(void) { return puts(qp_version()) < 0 || err_set(); }
END

# What an example needs beside the library: its own use of SQLite, a graph to run.
declare -A libraries=([cocommit]=-lsqlite3)
declare -A arguments=([graph_workers]="saga.db $PWD/examples/graphs/order-saga.yaml order.placed {\"item\":\"quipu\",\"amount\":42}")

# build_and_run SOURCE KIND: links it as a user would, and runs it in a directory of its own
build_and_run() {
    local source=$1 kind=$2 name where=$root static= example
    example=$(basename "$source" .c)
    name=$example-$kind
    [ "$kind" = shared ] || where=$root.static static=--static
    export PKG_CONFIG_PATH=$where/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$where
    gcc -o "$TMPDIR/$name" "$source" $(pkg-config --cflags quipu) $(pkg-config $static --libs quipu) ${libraries[$example]:-}
    mkdir "$TMPDIR/$name.dir"
    if [ "$kind" = static ] && ldd "$TMPDIR/$name" | grep libquipu; then
        return 1
    fi
    (cd "$TMPDIR/$name.dir" && TMPDIR=$TMPDIR/$name.dir LD_LIBRARY_PATH=$where/usr/lib "$TMPDIR/$name" ${arguments[$example]:-})
}

# The flags of a program that includes quipu.h are the path of quipu.h, and need no other package.
only_our_flags() {
    PKG_CONFIG_LIBDIR=$root/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root pkg-config --cflags quipu > "$TMPDIR/flags"
    [ "$(tr -d ' \n' < "$TMPDIR/flags")" = "-I$root/usr/include" ]
}

versions_agree() {
    local version
    version=$(PKG_CONFIG_PATH=$root/usr/lib/pkgconfig pkg-config --modversion quipu)
    [ "$(LD_LIBRARY_PATH=$root/usr/lib "$TMPDIR/names-shared")" = "$version" ] &&
        [ "$("$TMPDIR/names-static")" = "$version" ] && [ "$("$root/usr/bin/quipu" version)" = "quipu $version" ]
}

check "the flags of pkg-config" only_our_flags
for source in "$TMPDIR/names.c" examples/*.c; do
    for kind in shared static; do
        check "$source, $kind" build_and_run "$source" "$kind"
    done
done
check "versions" versions_agree

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
