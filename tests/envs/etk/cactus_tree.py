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
sim:
\t$(MAKE) -f lib/make/make.configuration TOP=$(CURDIR)/configs/sim CCTK_HOME=$(CURDIR)
"""
CONFIGURATION = """
CONFIG := $(TOP)/config-data
export SCRATCH_BUILD := $(TOP)/scratch
include $(CONFIG)/make.config.defn
include $(CONFIG)/make.thornlist
LIBRARIES := $(foreach T,$(THORNS),$(TOP)/lib/libthorn_$(notdir $T).a)
all: $(EXEDIR)/$(EXE)
\t@echo All done !
$(EXEDIR)/$(EXE): $(LIBRARIES) $(TOP)/datestamp.o
\t$(CC) -o $@ $(TOP)/datestamp.o -Wl,--start-group $(LIBRARIES) -Wl,--end-group -lm
$(TOP)/datestamp.o: $(CCTK_HOME)/src/datestamp.c
\t$(CC) -c -o $@ $<
.PHONY: update
$(LIBRARIES): $(TOP)/lib/libthorn_%.a: update
\tmkdir -p $(TOP)/build/$* && cd $(TOP)/build/$* && $(MAKE) -f $(CCTK_HOME)/lib/make/make.thornlib TOP=$(TOP) \\
\t  CONFIG=$(CONFIG) CCTK_HOME=$(CCTK_HOME) NAME=$@ THORN=$* \\
\t  SRCDIR=$(if $(filter Cactus,$*),$(CCTK_HOME)/src,$(CCTK_HOME)/arrangements/$(filter %/$*,$(THORNS))/src)
"""
THORNLIB = """
include $(CONFIG)/make.config.defn
BINDINGS := $(TOP)/bindings
-include $(BINDINGS)/Configuration/Thorns/make.$(THORN).defn
INC_DIRS += $(SYS_INC_DIRS) $(SRCDIR) $(wildcard $(SRCDIR)/include) $(CONFIG) $(BINDINGS)/include \\
  $(CCTK_HOME)/src/include $(CCTK_HOME)/arrangements $(BINDINGS)/include/$(THORN)
include $(SRCDIR)/make.code.defn
$(NAME): $(SRCS:%=%.o)
\trm -f $@ && $(AR) rcs $@ $^ && echo $^ > $@.objectlist
include $(CONFIG)/make.config.rules
-include $(SRCS:%=%.d)
"""
DEFN = """
include $(TOP)/config-data/make.extra.defn
-include $(TOP)/bindings/Configuration/make.link
export SHELL = /bin/sh
export CC = gcc
export CXX = g++
export PERL = perl
export AR = ar
export CFLAGS = -std=gnu99
export CXXFLAGS = -std=gnu++17
export C_OPTIMISE_FLAGS = -O1
export C_NO_OPTIMISE_FLAGS = -O0
export C_FILE_PROCESSOR = $(CCTK_HOME)/lib/sbin/c_file_processor.pl
export EXEDIR = $(CCTK_HOME)/exe
export EXE = cactus_sim
export CCTK_OPTIMISE_MODE = yes
ifeq ($(CCTK_OPTIMISE_MODE),yes)
  CFLAGS += $(C_OPTIMISE_FLAGS)
else
  CFLAGS += $(C_NO_OPTIMISE_FLAGS)
endif
"""
RULES = """
INCLUDE_LINE = $(patsubst %,-I"%",$(INC_DIRS))
%.c.o: $(SRCDIR)/%.c
\t$(PERL) $(C_FILE_PROCESSOR) $(CONFIG) < $< > $(notdir $<)
\t@echo COMPILING $<
\there=`pwd`; cd $(SCRATCH_BUILD); $(CC) $(CFLAGS) -c -o $$here/$@ $$here/$(notdir $<) $(INCLUDE_LINE) -DCCODE
%.c.d: $(SRCDIR)/%.c
\t$(CC) -E -M $(CFLAGS) $< $(INCLUDE_LINE) -DCCODE | sed "s,^[^ ]*\\.o *:,$*.c.o $@:," > $@
%.cxx.o: $(SRCDIR)/%.cxx
\t$(PERL) $(C_FILE_PROCESSOR) $(CONFIG) < $< > $(notdir $<)
\there=`pwd`; cd $(SCRATCH_BUILD); $(CXX) $(CXXFLAGS) -c -o $$here/$@ $$here/$(notdir $<) $(INCLUDE_LINE) -DCCODE
"""
PROCESSOR = """
require "$ARGV[0]/fortran_name.pl";
while (<STDIN>) { s/CCTK_FNAME\\s*\\(\\s*(\\w+)\\s*\\)/fortran_name($1)/ge; print; }
"""
CALLER = """
#include "cctk.h"
#include "cctk_Arguments.h"
#include "cctk_Parameters.h"
#include "own.h"
#include "NRPy/WaveToyNRPy/src/simd/simd_intrinsics.h"
void CCTK_FNAME(Own_Add)(CCTK_REAL *sum, const CCTK_REAL *term) { *sum += *term; }
void Own_Call(CCTK_ARGUMENTS)
{
  DECLARE_CCTK_ARGUMENTS_Own_Call;
  CCTK_REAL sum = 0, half = OWN_HALF;
  CCTK_FNAME(Own_Add)(&sum, &half);
  uuGF[0] = sum;
}
"""
VARIABLES = "uuGF vvGF uu_rhsGF vv_rhsGF uu_exactGF vv_exactGF x y z"
FLESH_FILES = {
    "Makefile": MAKEFILE,
    "lib/make/make.configuration": CONFIGURATION,
    "lib/make/make.thornlib": THORNLIB,
    "lib/sbin/c_file_processor.pl": PROCESSOR,
    "src/include/cctk.h": CCTK,
    "src/include/cctk_Faces.h": "#define CCTK_ALL_FACES 63\n",
    "src/include/util_Table.h": '#include "cctk.h"\n',
    "src/include/unused.h": "#error nobody includes this\n",
    "src/make.code.defn": "SRCS = flesh.c\n",
    "src/flesh.c": FLESH,
    "src/datestamp.c": "const char *date = __DATE__;\n",
}
"""The flesh lies in repos/flesh, with links to it at the top."""
THORN_FILES = {
    "interface.ccl": "implements: Own\n",
    "schedule.ccl": "schedule Own_Call at EVOL\n{\n  LANG: C\n} \n",
    "param.ccl": "",
    "src/make.code.defn": "SRCS = call.c\n",
    "src/call.c": CALLER,
    "src/include/own.h": '#include "cctk_Faces.h"\n#define OWN_HALF 0.5\n',
}
CONFIG_FILES = {
    "config-info": "# CONFIGURATION  : sim\n",
    "ThornList": "NRPy/WaveToyNRPy # (WaveToyNRPy) [ ] { } < >\nOwn/Caller # (Own) [ ] { } < >\n",
    "config-data/cctk_Config.h": "#define CCTK_REAL_PRECISION_8 1\n",
    "config-data/fortran_name.pl": 'sub fortran_name { return "\\L$_[0]\\E_"; }\n1;\n',
    "config-data/make.config.defn": DEFN,
    "config-data/make.extra.defn": "",
    "config-data/make.config.rules": RULES,
    "config-data/make.thornlist": "THORNS = Cactus NRPy/WaveToyNRPy Own/Caller\n",
    "bindings/Configuration/make.link": "LIBS +=\n",
    "bindings/Configuration/Capabilities/make.OWN.defn": "OWN_DEFINED = 1\n",
    # Cactus notes the place of the tree
    "bindings/Configuration/Thorns/make.Caller.defn": "include $ROOT/configs/sim/bindings/Configuration/"
    "Capabilities/make.OWN.defn\nINC_DIRS += $ROOT/configs/sim/scratch/external/include\n",
    "bindings/include/cctk_Types.h": "typedef double CCTK_REAL;\ntypedef int CCTK_INT;\n",
    "bindings/include/Symmetry.h": '#include "cctk.h"\n',
}
PARAMETERS = (
    "#define DECLARE_CCTK_PARAMETERS \\\n  const CCTK_REAL sigma CCTK_ATTRIBUTE_UNUSED = 3.0, "
    "wavespeed CCTK_ATTRIBUTE_UNUSED = 1.0; \\\n  const CCTK_INT fd_order CCTK_ATTRIBUTE_UNUSED = 8;\n"
)


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
    for program in ("gcc", "g++", "make", "perl"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    if importlib.util.find_spec("nrpy") is None:
        pytest.skip("the package nrpy is not here (pip install nrpy)")
    write_tree(folder, nrpy_thorns())
    subprocess.run(["make", "sim"], cwd=folder, check=True, capture_output=True)
    return folder


def write_files(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.lstrip("\n"))


def write_tree(folder: Path, thorns: Path) -> Path:
    """The tree in `folder`, laid out as a checkout and its configuration are: repositories behind links, each thorn's
    own headers in a folder of the bindings."""
    folder.mkdir(exist_ok=True)
    write_files(folder / "repos/flesh", FLESH_FILES)
    write_files(folder / "repos/own/Caller", THORN_FILES)
    shutil.copytree(thorns, folder / "repos/nrpy")
    for name in ("Makefile", "lib", "src"):
        (folder / name).symlink_to(f"repos/flesh/{name}")
    for repository, arrangement in (("nrpy", "NRPy"), ("own", "Own")):
        if arrangement == "Own":  # a whole arrangement by one link
            (folder / "arrangements" / arrangement).symlink_to(f"../repos/{repository}")
            continue
        (folder / "arrangements" / arrangement).mkdir(parents=True)
        for thorn in sorted((folder / "repos" / repository).iterdir()):
            link = folder / "arrangements" / arrangement / thorn.name
            link.symlink_to(f"../../repos/{repository}/{thorn.name}")
    configuration = folder / "configs/sim"
    write_files(configuration, {name: text.replace("$ROOT", str(folder)) for name, text in CONFIG_FILES.items()})
    for thorn in folder.glob("arrangements/*/*"):
        sources = [path.read_text() for path in thorn.glob("src/*.c*")]
        own = {"cctk_Arguments.h": arguments(sources), "cctk_Parameters.h": PARAMETERS}
        write_files(configuration / "bindings/include" / thorn.name, own)
    for made in ("build", "lib", "scratch"):
        (configuration / made).mkdir()
    (folder / "exe").mkdir()
    return folder
