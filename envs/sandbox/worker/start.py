"""Starts the fork server: reads the first packet, loads what programs commonly import, confines itself, tests the walls
with a process, and serves."""

import contextlib
import json
import os
import signal
import socket
import sys

import confine
import kernel
import namespaces
import preloading
import semaphores
from clock import Clock
from group import join
from relocation import relocate
from server import Server


def main() -> None:
    os.umask(0o022)  # programs of another user pass through the folders that the server makes
    for number in (signal.SIGCHLD, signal.SIGXCPU):  # the caller may ignore them, which is inherited
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    control = socket.socket(fileno=kernel.high(int(sys.argv[1])))
    hello = json.loads(control.recv(1 << 16))
    for name in ("PYTHONHOME", "LD_LIBRARY_PATH"):  # they are for this interpreter; a build may start others
        os.environ.pop(name, None)
    tier, packages, library = hello["tier"], hello["packages"], os.path.dirname(os.__file__)
    sys.path[:] = [path for path in sys.path if path != os.path.dirname(os.path.abspath(__file__))]
    sys.path += dict.fromkeys(os.path.dirname(folder) for folder in packages)
    if hello["processor"] is not None:
        with contextlib.suppress(OSError):  # the processor may have been removed in the meantime
            os.sched_setaffinity(0, {hello["processor"]})
    uid = hello["first_uid"] + os.getpid() if hello["first_uid"] is not None and tier != "none" else None
    filters = {name: bytes.fromhex(bpf) for name, bpf in hello["filters"].items()}
    try:
        clock = Clock()
        group = join(hello["group"])
        with contextlib.suppress(OSError):
            kernel.share_code()
        searched = sys.path[:]
        sys.path += hello["beside"]
        for name in hello["imports"]:
            preloading.load(name)
        sys.path[:] = searched
        if tier == "full":
            moved = namespaces.enter_namespaces([library, *packages], hello["hidden"], hello["trees"])
            library, *packages = (moved.get(folder, folder) for folder in (library, *packages))
            relocate({os.path.dirname(old): os.path.dirname(new) for old, new in moved.items()})
        confine.guard_server(uid, tier == "full")
        walls = confine.Walls(tier, uid, filters, [library, *hello["linked"]], packages, hello["hidden"])
        preloading.preload()
        if tier == "landlock":
            semaphores.replace()
        if group is not None and not group.settled():
            group = None
        trees = hello["trees"] if tier == "full" else []
        server = Server(control, walls, clock, packages, trees, group)
        server.probe(hello["limits"])
        refused = server.layers.refusal() if tier == "full" else f"the sandbox's tier is {tier}, not full"
        control.send(json.dumps({"ready": walls.describe(), "no_trees": refused}).encode())
    except Exception as error:
        control.send(json.dumps({"broken": f"{type(error).__name__}: {error}"}).encode())
        return
    try:
        server.serve()
    finally:
        server.forget_checker()
        server.forget_template()
        server.workplace.remove()
        if group is not None:
            group.remove()
