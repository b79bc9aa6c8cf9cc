#!/bin/sh
# Builds the image: the binary, the libraries that it needs, and this machine's trusted issuers.
#   image.sh [BINARY]
# ENGINE is podman, docker or buildah; TAG is the image's name. Nothing is pulled.
set -eu
binary=${1:-target/release/truetail}
engine=${ENGINE:-podman}
tag=${TAG:-$("$binary" --version | tr ' ' :)}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

umask 022
root=$folder/root
mkdir -p "$root/usr/local/bin"
strip --strip-debug -o "$root/usr/local/bin/truetail" "$binary"
libraries=$(ldd "$binary" | grep -o '/[^ ]*')
issuers=/etc/ssl/certs/ca-certificates.crt
for file in $libraries $issuers; do
  test ! -e "$file" || install -D "$file" "$root$file"
done
"$engine" build --quiet --file "$(dirname "$0")/Containerfile" --tag "$tag" "$root"
"$engine" images "$tag"
