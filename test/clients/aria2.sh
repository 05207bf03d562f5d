#!/bin/sh
# aria2.sh HTTP-BASE HTTPS-BASE [ca-certificate]
# aria2c reads http_proxy and https_proxy (lower case only), but no variable that
# names certificates: they are an option. It downloads, and does nothing else.
set -eu
http=$1 https=$2
shift 2
[ $# -eq 0 ] || set -- --ca-certificate="$SSL_CERT_FILE"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

for base in "$http" "$https"; do
  for step in 'get /get?q=a%20b&n=1' 'big /big' 'redirect /redirect' 'again /get?q=again'; do
    name=${step%% *}
    aria2c --no-conf --quiet --max-tries=1 --split=1 "$@" --dir="$dir" --out="$name" "$base${step#* }"
    sum=$(sha256sum <"$dir/$name")
    rm "$dir/$name"
    # aria2c ends with 0 for 200 alone, and does not tell the version of HTTP.
    echo "${base%%:*} $name 200 ${sum%% *} -"
  done
done
