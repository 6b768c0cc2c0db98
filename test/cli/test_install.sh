#!/bin/bash
# test_install.sh - a program of somebody else builds and runs against the installed library, static and shared
set -eu
build=${QP_BUILD:-build}
root=$TMPDIR/root

make -s install B="$build" DESTDIR="$root" PREFIX=/usr > /dev/null

export PKG_CONFIG_PATH=$root/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
cat > "$TMPDIR/user.c" << 'END'
#include <quipu.h>
#include <stdio.h>
/* Names that the library uses inside belong to its user: this must not clash. */
int err_set(void);
int err_set(void) { return 0; }
int main(void) { return puts(qp_version()) < 0 || err_set(); }
END

flags=$(pkg-config --cflags quipu)
version=$(pkg-config --modversion quipu)
gcc -o "$TMPDIR/shared" "$TMPDIR/user.c" $flags $(pkg-config --libs quipu)
gcc -o "$TMPDIR/static" "$TMPDIR/user.c" $flags "$root/usr/lib/libquipu.a" -lsqlite3 -lpq -ljansson -lyaml -lcrypto -lpthread -lm

[ "$(LD_LIBRARY_PATH=$root/usr/lib "$TMPDIR/shared")" = "$version" ]
[ "$("$TMPDIR/static")" = "$version" ]
[ "$("$root/usr/bin/quipu" version)" = "quipu $version" ]
