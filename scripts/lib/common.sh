# Sourced by the scripts of scripts/: changes to the top of the tree, computes the number of parallel
# jobs, and measures phases.
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$top"

# One compiler job per core, but at most one per 1.8 GB of memory: the largest files take 1.5 GB.
jobs=$(awk -v cores="$(nproc)" '/^MemAvailable/ { m = int($2 / 1800000) } END { if (m < 1) m = 1; print (m < cores ? m : cores) }' /proc/meminfo 2>/dev/null || nproc)

# ccache: limits the size of the cache, and finds files compiled in another checkout.
export CCACHE_MAXSIZE=${CCACHE_MAXSIZE:-3G} CCACHE_BASEDIR=${CCACHE_BASEDIR:-$top} CCACHE_NOHASHDIR=1
export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros}

phases=()
# phase NAME COMMAND...: runs the command, and records its time for print_phases. Returns its exit code.
phase() {
  local name=$1 begin=$SECONDS rc=0
  shift
  echo "== $name"
  "$@" || rc=$?
  phases+=("$(printf '%-28s %5d s%s' "$name" $((SECONDS - begin)) "$([[ $rc == 0 ]] || echo "  FAILED ($rc)")")")
  return $rc
}
print_phases() {
  [[ ${#phases[@]} == 0 ]] || printf '   %s\n' "${phases[@]}"
}

# Prints the first comment of the calling script as its help.
usage() { awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "$0"; }
