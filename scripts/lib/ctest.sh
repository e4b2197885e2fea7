# Sourced after common.sh: runs test suites and counts their results together.
results=() also=()
count_options=()   # for count_tests.py
[[ ${CI:-} != true ]] || count_options=(--ci)
test_timeout=300   # seconds, for tests without a TIMEOUT property

# suite PRESET NAME CTEST-OPTIONS...: builds the preset, or only the targets in `targets`, and runs its
# tests. A failed build counts as one failed test, and the tests that could be built still run.
targets=()
suite() {
  local preset=$1 name=$2 junit=$top/build/$1/junit-$2.xml
  shift 2
  phase "build $preset" scripts/build "$preset" "${targets[@]/#/--target=}" || also+=("build_$preset=fail")
  if [[ ! -f build/$preset/CTestTestfile.cmake ]]; then also+=("configure_$preset=fail"); return; fi
  rm -f "$junit"
  phase "test $preset ($name)" run_ctest "build/$preset" "$junit" "$@" || true
  results+=("$junit")
}

# run_ctest DIR JUNIT OPTIONS...: runs ctest without its "Start" lines.
run_ctest() {
  local dir=$1 junit=$2
  shift 2
  ctest --test-dir "$dir" --output-on-failure --timeout "$test_timeout" --parallel "$jobs" --output-junit "$junit" "$@" |
    sed -u '/^ *Start  *[0-9]*: /d'
}

# Builds each example of the installed package against that package, as a user does, and runs its tests.
examples() {
  local prefix=$top/build/package list dir name
  rm -rf "$prefix"
  if ! phase "install package" cmake --install build/release --prefix "$prefix" >/dev/null; then also+=("install=fail"); return 0; fi
  if whole_package "$prefix"; then also+=("package=pass"); else also+=("package=fail"); fi
  list=$(ls "$prefix"/share/troupe/examples/*/CMakeLists.txt 2>/dev/null || true)
  for dir in $list; do
    dir=$(dirname "$dir") name=example_$(basename "$dir")
    if phase "$name" example "$dir" "build/$name" "$prefix"; then also+=("$name=pass"); else also+=("$name=fail"); fi
    while read -r skipped; do also+=("$name.$skipped=skip"); done < <(skipped_in "build/$name/ctest.log")
  done
}
# whole_package PREFIX: checks that the package has every page, picture, configuration and example of the tree.
whole_package() {
  local file missing=0
  while read -r file; do
    case $file in
      README.md | LICENSE | CHANGELOG.md | docs/*.md | docs/*.svg | docs/*.png | examples/* | configs/*) file=troupe/$file ;;
      *) continue ;;
    esac
    if [[ ! -f $1/share/$file ]]; then echo "the package lacks share/$file" >&2; missing=1; fi
  done < <(git ls-files README.md LICENSE CHANGELOG.md docs examples configs)
  return $missing
}
skipped_in() { sed -n 's/.*Test *#[0-9]*: \([^ ]*\) \.*\*\*\*Skipped.*/\1/p' "$1" 2>/dev/null; }  # names of skipped tests in a ctest log
example() {
  rm -rf "$2"
  cmake -G Ninja -S "$1" -B "$2" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$3" >/dev/null &&
    cmake --build "$2" --parallel "$jobs" -- --quiet &&
    ctest --test-dir "$2" --output-on-failure --timeout 300 >"$2/ctest.log" 2>&1 || { tail -n 40 "$2/ctest.log" 2>/dev/null; return 1; }
}

# Prints the phases and, on the last line, the totals. Returns non-zero if anything failed.
totals() {
  local options=("${count_options[@]}") a
  for a in "${also[@]}"; do options+=(--also "$a"); done
  print_phases
  python3 scripts/lib/count_tests.py "${options[@]}" "${results[@]}"
}
