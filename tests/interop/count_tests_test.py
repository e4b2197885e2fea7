#!/usr/bin/env python3
"""Tests how scripts/lib/count_tests.py counts and names skipped tests. usage: count_tests_test.py count_tests.py"""
import os
import subprocess
import sys
import tempfile

RESULTS = """<testsuite>
<testcase name="gemm.adds" status="run"/>
<testcase name="amx_test.adds" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>
{more}
</testsuite>"""
OTHER = '<testcase name="gemm.later" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>'


GPUS = "".join(f'<testcase name="GPU_jobs.{i}" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>' for i in range(4))


def lines(flags, *options, more=""):
    with tempfile.TemporaryDirectory() as folder:
        results, cpuinfo = os.path.join(folder, "r.xml"), os.path.join(folder, "cpuinfo")
        with open(results, "w") as f:
            f.write(RESULTS.format(more=more))
        with open(cpuinfo, "w") as f:
            f.write(f"processor\t: 0\nflags\t\t: fpu {flags}\n")
        r = subprocess.run([sys.executable, sys.argv[1], *options, "--cpuinfo", cpuinfo, results], capture_output=True, text=True)
        said = r.stdout.splitlines()
        assert (r.returncode == 0) == (", 0 failed" in said[-1]), r
        return said


def last_line(*options, **more):
    return lines(*options, **more)[-1]


def expect(made, wanted):
    assert made == wanted, f"{made!r}, not {wanted!r}"


expect(last_line("avx512f"), "1 passed, 0 failed, 1 skipped")
expect(last_line("avx512f", "--ci"), "1 passed, 0 failed, 1 skipped")  # the processor has no matrix unit
expect(last_line("avx512f amx_bf16 amx_tile", "--ci"), "1 passed, 1 failed")  # the processor has one, so the skip counts as a failure
expect(last_line("avx512f", "--strict"), "1 passed, 1 failed")
expect(last_line("avx512f", "--ci", more=OTHER), "1 passed, 1 failed, 1 skipped")
expect(lines("avx512f", "--ci", more=GPUS), ["skipped amx_test.adds", "skipped GPU_jobs.* (4 tests)", "1 passed, 0 failed, 5 skipped"])
PRINTED = "".join(f"line {i}\n" for i in range(40))
FAILED = f'<testcase name="ends" status="fail"><failure message="Failed"/><system-out>{PRINTED}</system-out></testcase>'
expect(lines("avx512f", "--ci", more=FAILED),
       ["FAILED  ends  Failed", *(f"    line {i}" for i in range(10, 40)), "skipped amx_test.adds", "1 passed, 1 failed, 1 skipped"])
PRINTED = "a_test.cpp:7: Failure\nExpected: 1\n" + PRINTED
FAILED = f'<testcase name="a" status="fail"><failure message="Failed"/><system-out>{PRINTED}</system-out></testcase>'
expect(lines("avx512f", more=FAILED)[1:5], ["    a_test.cpp:7: Failure", "    Expected: 1", "    line 0", "    line 1"])
with tempfile.NamedTemporaryFile("w") as cpuinfo:  # a suite that CI left out for lack of time
    late = subprocess.run([sys.executable, sys.argv[1], "--ci", "--cpuinfo", cpuinfo.name, "--also", "build=pass", "--also", "asan.NO_TIME=skip"],
                          capture_output=True, text=True).stdout.splitlines()
expect(late, ["skipped asan.NO_TIME", "1 passed, 0 failed, 1 skipped"])
