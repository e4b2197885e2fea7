# Sourced by the scripts beside it: where the tree is, how many jobs fit, and how long each phase took.
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$top"

# One compiler job per core, but never more than memory holds: the heaviest files take 1.2 GB.
jobs=$(awk -v cores="$(nproc)" '/^MemAvailable/ { m = int($2 / 1500000) } END { if (m < 1) m = 1; print (m < cores ? m : cores) }' /proc/meminfo 2>/dev/null || nproc)

# ccache keeps to a size that fits beside a checkout, and finds a file again from another folder.
export CCACHE_MAXSIZE=${CCACHE_MAXSIZE:-3G} CCACHE_BASEDIR=${CCACHE_BASEDIR:-$top} CCACHE_NOHASHDIR=1
export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros}

phases=()
# phase NAME COMMAND...: runs it, says how long it took, remembers both; returns what the command returned.
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

# The comment at the head of the calling script is its help.
usage() { awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "$0"; }
