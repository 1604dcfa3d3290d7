"""The process from which programs' processes are forked.

It has the layers of confinement that still allow it to fork, and has prepared what each program's process uses, because
a forked process pays for each page that it touches. It sees no payload: the processes that it forks read theirs
themselves. They are children of the server, which waits for them.

An order (one packet) is `KIND CPU PROCESSES FOLDER` with descriptors: channel, payload and, by kind
    stdio     stdin, stdout, stderr if it is requested
    command   stdout, stderr, with `Walls.asking` a socket on which the listener of modes.py is sent back, and with
              `Walls.grouped` the list of members of a control group
The answer is the number of the new process.
"""

import gc
import os
import socket

import candidate
import confine
import kernel
import program

BODIES = {
    "function": program.function_body,
    "candidate": candidate.candidate_body,
    "stdio": program.stdio_body,
    "command": program.command_body,
    "nothing": lambda *_: os._exit(0),
}
PAYLOAD = program.CHANNEL + 1
"""An order's descriptors get the lowest free numbers: the channel's, this one, and the next ones for streams."""
MOST = 6
ROOM = 512
"""Largest length of an order in bytes."""


def shared(limits: dict) -> tuple:
    """The limits that a program shares with its template."""
    return tuple(limits[name] for name in ("memory_mib", "output_kib", "file_mib", "open_files", "sockets"))


def template_body(channel: int, limits: dict, walls: confine.Walls, alarm: int, tools: program.Tools) -> None:
    """Fork processes as ordered until the server closes the socket. Besides `channel` and `alarm`, descriptors 0 to 2
    are open, on /dev/null."""
    server = socket.socket(fileno=channel)
    space = socket.CMSG_SPACE(4 * MOST)
    gc.collect()
    gc.freeze()
    while True:
        order = server.recvmsg(ROOM, space)[0]
        if not order:
            os._exit(0)
        pid = kernel.fork_sibling()
        if not pid:
            _run(order, limits, walls, alarm, tools)
        os.closerange(program.CHANNEL, program.CHANNEL + MOST)
        server.send(b"%d" % pid)


def _run(order: bytes, limits: dict, walls: confine.Walls, alarm: int, tools: program.Tools) -> None:
    """In the new process: apply the remaining layers, and become the program."""
    try:
        kind, cpu, processes, folder = order.decode().split(" ", 3)
        try:
            if kind == "command":  # a build may use all processors
                os.sched_setaffinity(0, kernel.PROCESSORS)
            os.chdir(folder)
            # an open file of its own, with the number after those of the order
            null = os.open("/dev/null", os.O_RDWR)
            streams = list(range(PAYLOAD + 1, null))
            if kind == "command" and walls.grouped:
                os.write(streams.pop(), b"0")  # this process, and so its descendants
            walls.keep_to(folder)
            if kind == "command" and walls.asking:
                walls.ask(streams.pop())
            build = "sockets" if limits["sockets"] else "tools"
            walls.close(walls.uid, int(cpu), int(processes), build if kind == "command" else "program", measured=True)
            if kind == "nothing":
                confine.check_devices()
        except Exception as error:
            os.write(alarm, f"{type(error).__name__}: {error}".encode())
            raise
        streams = [null, *streams] if kind == "command" else [*streams, null, null, null]
        for stream in range(3):
            os.dup2(streams[stream], stream)
        os.closerange(PAYLOAD + 1, 1 << 20)
        if walls.tier != "full":
            os.environ["TMPDIR"] = folder
        BODIES[kind](PAYLOAD, limits, tools)
    finally:
        os._exit(70)
