#!/bin/bash
# check.sh [--fix] [--all] [--base COMMIT] [--build DIR] [--only NAME]...
# Runs the static checks of CI. Prints one line per check, after its findings.
#   arrows    includes follow the layers of the architecture
#   format    files have the form of clang-format (--fix: rewrites them)
#   sizes     no function or class is too large, unless a comment `// size: why` gives the reason
#   words     pages and files that texts name exist, and the tests of tests/promises.txt
#   site      the links of pages lead to files and headings that exist (docs/site.py)
#   comments  comments end at column 100 (--fix: wraps them) and name files that exist
#   derived   ops/primitives.inl lists all primitives of ops/device.hpp
#   page      web/dist is what web/src gives (skipped without node, or without the npm packages and a network)
#   purity    the pure libraries contain no CAF and no TLS
#   headers   headers changed since COMMIT, and headers that include them, compile by themselves
#   tidy      clang-tidy finds nothing in the files changed since COMMIT
# --all: headers and tidy check all files.
# purity, headers and tidy use the last build in DIR (default build/release). CHECK_SECONDS in the environment
# limits headers and tidy (default 600 each).
set -uo pipefail
source "$(dirname "$0")/lib/common.sh"

build=build/release only=() changes=() fix=no
while [[ $# -gt 0 ]]; do
  case $1 in
    --fix) fix=yes ;;
    --all) changes+=(--all) ;;
    --base) changes+=(--base "${2:?check.sh: --base needs a commit}"); shift ;;
    --build) build=${2:?check.sh: --build needs a folder}; shift ;;
    --only) only+=("${2:?check.sh: --only needs a check}"); shift ;;
    -h | --help) usage; exit 0 ;;
    *) echo "check.sh: unknown option '$1' (try --help)" >&2; exit 2 ;;
  esac
  shift
done

format() {
  local list bad
  list=$(git ls-files -co --exclude-standard '*.hpp' '*.cpp' '*.inl' '*.cu' '*.cuh' | while read -r f; do [[ ! -f $f ]] || echo "$f"; done)
  [[ -n $list ]] || { echo "0 files"; return 0; }
  [[ $fix == no ]] || xargs clang-format -i <<<"$list"
  bad=$(xargs clang-format --dry-run -Werror 2>&1 <<<"$list" | grep -o '^[^ :]*:[0-9]*:[0-9]*: error' | cut -d: -f1,2 | sort -u -t: -k1,1)
  [[ -z $bad ]] || head -n 20 <<<"$bad" | sed 's/$/: clang-format would change this line (run check.sh --fix)/'
  echo "$(wc -l <<<"$list") files, $(grep -c . <<<"$bad") not formatted"
  [[ -z $bad ]]
}

page() {
  command -v node npm >/dev/null || { echo "skipped: node and npm are not installed"; return 0; }
  [[ -d web/node_modules ]] || (cd web && timeout 120 npm ci --silent --no-audit --no-fund) ||
    { [[ ${CI:-} != true ]]; local rc=$?; echo "skipped: npm cannot fetch the packages of web/package-lock.json"; return $rc; }
  web/build.sh --check
}

failed=0
check() {
  local name=$1 begin=$SECONDS rc=0 out
  shift
  if [[ ${#only[@]} -gt 0 && " ${only[*]} " != *" $name "* ]]; then return; fi
  out=$("$@" 2>&1) || rc=$?
  [[ $(wc -l <<<"$out") == 1 ]] || sed '$d; s/^/    /' <<<"$out" | grep -v '^ *$'
  [[ $rc == 0 ]] || failed=$((failed + 1))
  printf '%-4s %-9s %s (%d s)\n' "$([[ $rc == 0 ]] && echo ok || echo FAIL)" "$name" "$(tail -n 1 <<<"$out")" $((SECONDS - begin))
}

lib=scripts/lib
check arrows python3 $lib/check_arrows.py
check format format
check sizes python3 $lib/check_sizes.py
check words python3 $lib/check_references.py
check site /usr/bin/python3 docs/site.py --check
check comments python3 $lib/check_comments.py $([[ $fix == no ]] || echo --fix)
check derived python3 $lib/derive_device.py --check
check page page
check purity python3 $lib/check_purity.py "$build"
check headers python3 $lib/check_headers.py --build "$build" --jobs "$jobs" --seconds "${CHECK_SECONDS:-600}" "${changes[@]}"
check tidy python3 $lib/check_tidy.py --build "$build" --jobs "$jobs" --seconds "${CHECK_SECONDS:-600}" "${changes[@]}"
exit $((failed > 0))
