#!/bin/sh
# curl.sh HTTP-BASE HTTPS-BASE [CURL-OPTION...]
# All transfers of a base are made by one curl, which keeps the connection.
# Proxy and roots come from the environment: http_proxy (lower case only),
# HTTPS_PROXY and CURL_CA_BUNDLE.
set -eu
http=$1 https=$2
shift 2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

for base in "$http" "$https"; do
  step() { # what every transfer has, as words without spaces
    printf '%s ' -sS --fail --output "$dir/$1" --write-out "$1|%{http_code}|%{http_version}\n"
  }
  # Options hold until --next only.
  curl -q $(step get) "$@" "$base/get?q=a%20b&n=1" \
    --next $(step post) "$@" --data-binary 'name=J%C3%BCrgen&x=1' "$base/post" \
    --next $(step big) "$@" "$base/big" \
    --next $(step gzip) "$@" --compressed "$base/gzip" \
    --next $(step redirect) "$@" --location "$base/redirect" \
    --next $(step again) "$@" "$base/get?q=again" >"$dir/steps"
  while IFS='|' read -r name status version; do
    sum=$(sha256sum <"$dir/$name")
    echo "${base%%:*} $name $status ${sum%% *} HTTP/$version"
  done <"$dir/steps"
done
