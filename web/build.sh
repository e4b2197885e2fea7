#!/bin/bash
# build.sh [--check]: bundles web/src and its npm packages into web/dist, which is in the tree and is compiled into
# the programs. Needs node and npm; `npm ci` fetches the exact versions of package-lock.json.
#   --check   builds into a temporary folder instead and compares it with web/dist
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

limit=122880 # bytes of all files after gzip
out=dist
if [[ ${1:-} == --check ]]; then
  out=$(mktemp -d)
  trap 'rm -rf "$out"' EXIT
fi
[[ -x node_modules/.bin/esbuild ]] || npm ci --silent --no-audit --no-fund
mkdir -p "$out"
node_modules/.bin/esbuild src/app.js --bundle --minify --format=iife --target=es2020 --charset=utf8 --legal-comments=eof \
  --log-level=warning --outfile="$out/app.js"
cp src/index.html src/icon.svg "$out/"
for package in preact htm uplot; do printf '%s\n\n' "== $package" && cat node_modules/$package/LICENSE; done >"$out/licenses.txt"

size=0
for f in "$out"/*; do size=$((size + $(gzip -9 -c "$f" | wc -c))); done
echo "web/dist: $size bytes after gzip, at most $limit"
[[ $size -le $limit ]]
if [[ $out != dist ]]; then diff -r "$out" dist >/dev/null || { echo "web/dist is not what web/src gives: run web/build.sh"; exit 1; }; fi
