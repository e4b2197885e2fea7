#!/usr/bin/env python3
"""brief_daemon.py --cluster FILE --node NAME: stands in for trouped in local_cluster_test. n2 is killed as soon as it has been seen; n3 comes up
after that; the others listen until they are ended."""
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
