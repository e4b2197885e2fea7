#!/usr/bin/env python3
"""ptxas_log.py COMMAND...: runs nvcc and writes what ptxas says of registers and spills to OUTPUT.ptxas, not to the terminal."""
import subprocess
import sys


def main():
    command = [word for word in sys.argv[1:] if word]
    run = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    said, others = [], []
    for line in run.stderr.splitlines(keepends=True):
        of_ptxas = line.startswith("ptxas info") or " bytes stack frame" in line
        (said if of_ptxas else others).append(line)
    sys.stderr.writelines(others)
    if said and "-o" in command:
        with open(command[command.index("-o") + 1] + ".ptxas", "w") as f:
            f.writelines(said)
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
