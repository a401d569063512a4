#!/bin/sh
# vendor_tree.sh OUT PLATFORM TRIPLE VERSION SHARED ARCHIVE STANDALONE FILE...: see vendor_tree.bzl. FILEs that end in .h are headers, the
# others go to the top. STANDALONE may be -: none.
set -eu
out=$1 platform=$2 triple=$3 version=$4 shared=$5 archive=$6 standalone=$7
shift 7

top=$out/$platform/libdatadog-$triple
mkdir -p "$top/include/datadog" "$top/lib/pkgconfig"
for file in "$@"; do
  case $file in
    *.h) cp -L "$file" "$top/include/datadog/" ;;
    *) cp -L "$file" "$top/" ;;
  esac
done
"${STRIP:-strip}" --strip-unneeded -o "$top/lib/libdatadog_profiling.so" "$shared"
cp -L "$archive" "$top/lib/libdatadog_profiling.a"
[ "$standalone" = - ] || cp -L "$standalone" "$top/lib/libdatadog_profiling_standalone.a"

# pc NAME DESCRIPTION REQUIRES LIBS
pc() {
  cat > "$top/lib/pkgconfig/$1.pc" <<EOF
prefix=\${pcfiledir}/../..
exec_prefix=\${prefix}
libdir=\${exec_prefix}/lib
includedir=\${prefix}/include

Name: $1
Description: $2
Version: $version
Requires: $3
Libs: $4
Cflags: -I\${includedir}
EOF
}

pc datadog_profiling_with_rpath "Nonferrous: profiles and their export, found where it lies now" "" \
  "-L\${libdir} -ldatadog_profiling -Wl,-rpath,\${libdir}"
pc datadog_profiling "Nonferrous: profiles and their export" "" "-L\${libdir} -ldatadog_profiling"
pc datadog_profiling_static "Nonferrous: profiles and their export, linked statically with the system's codecs" \
  "libprotobuf-c, zlib, liblz4, libzstd" "\${libdir}/libdatadog_profiling.a -lm -ldl -lpthread"
[ "$standalone" = - ] || pc datadog_profiling_standalone "Nonferrous: profiles and their export, linked statically with all that it needs inside" "" \
  "\${libdir}/libdatadog_profiling_standalone.a -lm -ldl -lpthread"

find "$out" -type d -exec chmod 755 {} +
find "$out" -type f -exec chmod 644 {} +
chmod 755 "$top/lib/libdatadog_profiling.so"
