#!/usr/bin/env python3
"""brief_daemon.py --cluster FILE --node NAME: replaces trouped in local_cluster_test. n2 kills itself after it has accepted a
connection; n3 listens only after that; the others listen until they are killed."""
import os
import re
import signal
import socket
import sys
import time

file, node = sys.argv[2], sys.argv[4]
with open(file) as f:
    port = int(re.search(rf'name = "{node}"\naddress = "127.0.0.1:(\d+)"', f.read()).group(1))
while node == "n3" and not os.path.exists(file + ".seen"):
    time.sleep(0.01)
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", port))
s.listen()
while True:
    s.accept()
    if node == "n2":
        open(file + ".seen", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
