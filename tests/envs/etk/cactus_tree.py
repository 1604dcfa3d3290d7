"""A small prepared Cactus tree around the thorns that nrpy writes: headers, generated bindings, a configuration."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from envs.etk.rows import nrpy_thorns

CCTK = """
#ifndef _CCTK_H_
#define _CCTK_H_
#include "cctk_Config.h"
#include "cctk_Types.h"
#ifdef __cplusplus
#define restrict __restrict__
extern "C" {
#endif
typedef struct { int cctk_lsh[3], cctk_nghostzones[3]; CCTK_REAL cctk_delta_space[3], cctk_time; void *data; } cGH;
#define CCTK_GFINDEX3D(GH, i, j, k) ((i) + (GH)->cctk_lsh[0] * ((j) + (GH)->cctk_lsh[1] * (k)))
#define CCTK_DELTA_SPACE(x) (cctkGH->cctk_delta_space[x])
#define CCTK_ATTRIBUTE_UNUSED __attribute__((unused))
#define CCTK_ERROR(message) CCTK_Error(__LINE__, __FILE__, message)
void CCTK_Error(int line, const char *file, const char *message);
const void *CCTK_ParameterGet(const char *name, const char *thorn, int *type);
int CCTK_GroupIndex(const char *name);
int MoLRegisterEvolvedGroup(int group, int rhs);
int Boundary_SelectVarForBC(const cGH *GH, int faces, int width, int table, const char *var, const char *bc);
int Driver_SelectVarForBC(const cGH *GH, int faces, int width, int table, const char *var, const char *bc);
int NewRad_Apply(const cGH *GH, const CCTK_REAL *var, CCTK_REAL *rhs, CCTK_REAL v0, CCTK_REAL speed, CCTK_REAL power);
int SetCartSymVN(const cGH *GH, const int *symmetries, const char *name);
#ifdef __cplusplus
}
#endif
#endif
"""
FLESH = """
#include "cctk.h"
#include <stdio.h>
#include <stdlib.h>
static const CCTK_REAL one = 1.0;
void CCTK_Error(int line, const char *file, const char *message) { exit(printf("%s:%d %s", file, line, message)); }
const void *CCTK_ParameterGet(const char *name, const char *thorn, int *type) { return &one; }
int CCTK_GroupIndex(const char *name) { return 0; }
int MoLRegisterEvolvedGroup(int group, int rhs) { return 0; }
int Boundary_SelectVarForBC(const cGH *GH, int f, int w, int t, const char *var, const char *bc) { return 0; }
int Driver_SelectVarForBC(const cGH *GH, int f, int w, int t, const char *var, const char *bc) { return 0; }
int NewRad_Apply(const cGH *GH, const CCTK_REAL *v, CCTK_REAL *r, CCTK_REAL a, CCTK_REAL b, CCTK_REAL c) { return 0; }
int SetCartSymVN(const cGH *GH, const int *symmetries, const char *name) { return 0; }
void WaveToyNRPy_zero_rhss(const cGH *cctkGH);
void WaveToyNRPy_rhs_eval(const cGH *cctkGH);
int main(void) { WaveToyNRPy_zero_rhss(0); WaveToyNRPy_rhs_eval(0); }
"""
MAKEFILE = """
THORN := arrangements/NRPy/WaveToyNRPy/src
BUILD := configs/sim/build/WaveToyNRPy
include $(THORN)/make.code.defn
OBJECTS := $(SRCS:%=$(BUILD)/%.o) configs/sim/build/flesh.c.o
FLAGS := -O0 -std=gnu99 -DCCODE -DTHORN_IS_WaveToyNRPy -I$(THORN) -Iconfigs/sim/config-data \\
  -Iconfigs/sim/bindings/include -Isrc/include
sim: exe/cactus_sim
\t@echo SUCCESS
exe/cactus_sim: $(OBJECTS)
\tgcc -o $@ $^ -lm
$(BUILD)/%.c.o: $(THORN)/%.c
\tcp $< $(BUILD)/$(notdir $<)
\tgcc $(FLAGS) -c -o $@ $<
configs/sim/build/flesh.c.o: src/main/flesh.c
\tgcc $(FLAGS) -c -o $@ $<
"""
VARIABLES = "uuGF vvGF uu_rhsGF vv_rhsGF uu_exactGF vv_exactGF x y z"
HEADERS = {
    "src/include/cctk.h": CCTK,
    "src/include/cctk_Faces.h": "#define CCTK_ALL_FACES 63\n",
    "src/include/util_Table.h": '#include "cctk.h"\n',
    "src/include/Symmetry.h": '#include "cctk.h"\n',
    "src/include/unused.h": "#error nobody includes this\n",
    "src/main/flesh.c": FLESH,
    "configs/sim/config-data/cctk_Config.h": "#define CCTK_REAL_PRECISION_8 1\n",
    "configs/sim/bindings/include/cctk_Types.h": "typedef double CCTK_REAL;\ntypedef int CCTK_INT;\n",
    "configs/sim/bindings/include/cctk_Parameters.h": "#define DECLARE_CCTK_PARAMETERS \\\n  const CCTK_REAL sigma "
    "CCTK_ATTRIBUTE_UNUSED = 3.0, wavespeed CCTK_ATTRIBUTE_UNUSED = 1.0; \\\n"
    "  const CCTK_INT fd_order CCTK_ATTRIBUTE_UNUSED = 8;\n",
    "Makefile": MAKEFILE,
}


def arguments(sources: list[str]) -> str:
    """What Cactus generates of schedule.ccl: a macro for each scheduled function, declaring its variables."""
    names = sorted({name for text in sources for name in re.findall(r"DECLARE_CCTK_ARGUMENTS\w+", text)})
    common = (
        "const int *cctk_lsh CCTK_ATTRIBUTE_UNUSED = cctkGH->cctk_lsh; "
        "const int *cctk_nghostzones CCTK_ATTRIBUTE_UNUSED = cctkGH->cctk_nghostzones; "
        "const CCTK_REAL cctk_time CCTK_ATTRIBUTE_UNUSED = cctkGH->cctk_time;"
    )
    each = " ".join(
        f"CCTK_REAL *restrict {v} CCTK_ATTRIBUTE_UNUSED = (CCTK_REAL *)cctkGH->data;" for v in VARIABLES.split()
    )
    macros = "".join(f"#define {name} {common} {each}\n" for name in names)
    return f'#include "cctk.h"\n#define CCTK_ARGUMENTS const cGH *restrict cctkGH\n{macros}'


def prepared_tree(folder: Path) -> Path:
    """The tree, built; skips where a program or the package nrpy is missing."""
    for program in ("gcc", "g++", "make"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    if importlib.util.find_spec("nrpy") is None:
        pytest.skip("the package nrpy is not here (pip install nrpy)")
    write_tree(folder, nrpy_thorns())
    subprocess.run(["make", "sim"], cwd=folder, check=True, capture_output=True)
    return folder


def write_tree(folder: Path, thorns: Path) -> Path:
    """The tree in `folder`, its thorns copied from `thorns` behind links, as a checkout has them."""
    for name, text in HEADERS.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.lstrip())
    shutil.copytree(thorns, folder / "repos" / "nrpy")
    (folder / "arrangements").mkdir()
    (folder / "arrangements" / "NRPy").symlink_to("../repos/nrpy")
    sources = [path.read_text() for path in (folder / "repos").rglob("*.c*") if path.suffix != ".ccl"]
    (folder / "configs/sim/bindings/include/cctk_Arguments.h").write_text(arguments(sources))
    for made in ("configs/sim/build/WaveToyNRPy", "exe"):
        (folder / made).mkdir(parents=True)
    return folder
