"""A program of two MPI processes, in the sandbox; MPI is needed (apt install openmpi-bin libopenmpi-dev gfortran)."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
from pathlib import Path

import pytest

from envs.etk.build.application import Application, Build, Run
from envs.etk.build.compare import ApplicationError, Metric
from envs.etk.build.prepared_tree import prepare
from envs.sandbox import FunctionCase, Job, Limits, LocalSandbox, run_sync

PROGRAM = """
program sums
  use mpi
  implicit none
  integer :: rank, error, i
  double precision :: part, total
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  part = 0d0
  do i = 1, 100
    part = part + 1d0 / (2 * i + rank)
  end do
  call MPI_Allreduce(part, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
  if (rank == 0) then
    open (7, file='sum.txt')
    write (7, *) 1, total
    close (7)
  end if
  call MPI_Finalize(error)
end program sums
"""


def application(folder: Path) -> Application:
    (folder / "sums.f90").write_text(PROGRAM)
    return Application(
        "sums",
        folder,
        Build("mpif90 -o sums sums.f90", artifact="sums"),
        Run("mpirun --oversubscribe --bind-to none -n 2 ./sums", mpi=True),
        Metric(expect=("sum.txt",), field="2", format="text"),
    )


@pytest.mark.cxx
def test_two_processes_of_mpi(tmp_path):
    for program in ("mpirun", "mpif90"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program}: apt install openmpi-bin libopenmpi-dev gfortran")
    (tmp_path / "app").mkdir()
    sums, cache = application(tmp_path / "app"), tmp_path / "cache"
    box = LocalSandbox(1, tier="full")
    try:
        asyncio.run(box.layers())
    except RuntimeError as error:
        pytest.skip(f"no namespaces: {error}")
    try:
        asyncio.run(prepare(sums, box, cache))
        [written] = cache.glob("sums-*/reference/sum.txt")
        expected = sum(1 / (2 * i + rank) for i in range(1, 101) for rank in (0, 1))
        assert float(written.read_text().split()[1]) == pytest.approx(expected, rel=1e-12)
        without = dataclasses.replace(sums, run=dataclasses.replace(sums.run, mpi=False))
        with pytest.raises(ApplicationError, match="unchanged: run: "):
            asyncio.run(prepare(without, box, cache))
    finally:
        asyncio.run(box.close())


SOCKETS = """
import socket
ends = [socket.socket() for _ in range(2)]
ends[0].bind(("127.0.0.1", 0)); ends[0].listen()
ends[1].connect(ends[0].getsockname()); ends[1].send(b"x")
assert ends[0].accept()[0].recv(1) == b"x"
for family, address in ((socket.AF_INET, ("192.0.2.1", 9)), (socket.AF_UNIX, "/run/dbus/system_bus_socket")):
    try:
        socket.socket(family).connect(address)
    except OSError as error:
        print(error.errno)
try:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)
except PermissionError:
    print("refused")
"""


def test_sockets_lead_nowhere_else_and_other_programs_have_none():
    python = ("/usr/bin/python3", "-I", "-c", SOCKETS)
    if not Path(python[0]).exists():
        pytest.skip("no /usr/bin/python3")
    job = Job("s", "command", commands=(python,), limits=Limits(wall_s=30, sockets=True))
    box = LocalSandbox(1, tier="full")
    try:
        asyncio.run(box.layers())
    except RuntimeError as error:
        pytest.skip(f"no namespaces: {error}")
    plain = dataclasses.replace(job, limits=Limits(wall_s=30))
    function = Job("f", "function", "import socket\ndef f():\n    socket.socket()", "f", (FunctionCase((), None),))
    own, *others = run_sync(box, [job, plain, dataclasses.replace(function, limits=job.limits)])
    asyncio.run(box.close())
    assert own.verdict == "pass" and own.stdout.split() == ["101", "2", "refused"], own
    assert [o.verdict for o in others] == ["fail", "fail"]
    weak = LocalSandbox(1, tier="landlock")
    [refused] = run_sync(weak, [job])
    asyncio.run(weak.close())
    assert (
        refused.verdict == "error"
        and refused.note == "sockets need namespaces: the sandbox's tier is landlock, not full"
    )
