#!/bin/sh
# wget.sh HTTP-BASE HTTPS-BASE
# wget reads http_proxy and https_proxy (lower case only), but no variable that
# names certificates: they are a setting in the file that WGETRC names. It posts in
# a run of its own.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

fetch() { # NAME OPTION... URL: fails unless the status is 2xx in the end
  name=$1
  shift
  wget --no-verbose --tries=1 --no-hsts \
    --server-response --output-document="$dir/$name" "$@" 2>"$dir/log" || { cat "$dir/log" >&2; exit 1; }
  status=$(sed -n 's|^ *HTTP/[0-9.]* \([0-9]*\).*|\1|p' "$dir/log" | tail -n 1)
  version=$(sed -n 's|^ *\(HTTP/[0-9.]*\) .*|\1|p' "$dir/log" | tail -n 1)
  sum=$(sha256sum <"$dir/$name")
  echo "${base%%:*} $name $status ${sum%% *} $version"
}

for base in "$1" "$2"; do
  fetch get "$base/get?q=a%20b&n=1"
  fetch post --post-data='name=J%C3%BCrgen&x=1' "$base/post"
  fetch big "$base/big"
  fetch gzip --compression=gzip "$base/gzip"
  fetch redirect "$base/redirect"
  fetch again "$base/get?q=again"
done
