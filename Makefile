# Makefile - builds, tests and installs Quipu (GNU make 4.3 or later); `make help` lists the targets
#
# One make, no recursion into directories: sources are found by wildcard, and every variant of the build has its own
# directory of objects under build/, so that switching between them never rebuilds anything:
#
#   build/         release         what is shipped: -O2 -g, hardened
#   build/test     + failpoints    the same code with -DQP_FAILPOINTS and -O1
#   build/asan     + failpoints    address and undefined-behaviour sanitizers: the build under test
#   build/tsan     + failpoints    thread sanitizer
#   build/cov      + failpoints    counts which lines and branches ran
#   build/fuzz     clang           libFuzzer targets, with address and undefined-behaviour sanitizers
#
# Settings: WERROR=1 makes warnings errors (CI=true and `make check` imply it); V=1 shows commands; T=name picks
# test programs (make unit T=mem); FUZZ_SECONDS=60; PREFIX=/usr/local; DESTDIR=; B=build is the output directory.

MAKEFLAGS += --no-builtin-rules --no-builtin-variables --no-print-directory
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif
.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:
SHELL := /bin/bash

B            := build
PREFIX       := /usr/local
DESTDIR      :=
FUZZ_SECONDS := 60
T            := %
SOVERSION    := 0

VERSION := $(shell sed -n 's/^.define QP_VERSION "\(.*\)"$$/\1/p' include/quipu.h)

ifeq ($(CI),true)
WERROR := 1
endif
Q := $(if $(V),,@)

CC    := gcc
CLANG := clang
AR    := ar
LD    := ld

# ------------------------------------------------------------------------------------------------------- sources

# Layers from the bottom up. The library ends with `run`; `server` and `cli` are the program around it.
LIBRARY_LAYERS := base mapping store kernel graph flow agent carto run
PROGRAM_LAYERS := server cli

sources_of   = $(sort $(wildcard src/$(1)/*.c src/$(1)/*/*.c))
LIBRARY_SRC := $(foreach layer,$(LIBRARY_LAYERS),$(call sources_of,$(layer)))
PROGRAM_SRC := $(foreach layer,$(PROGRAM_LAYERS),$(call sources_of,$(layer)))
# What tests and fuzz targets may use beside the library: everything but the commands.
SERVER_SRC  := $(call sources_of,server)
EXAMPLE_SRC := $(sort $(wildcard examples/*.c))

# A test program is a test/<directory>/test_*.c. It is linked with the library's objects, with test/support/*.c and
# with the other .c files of its own directory. Tests may also be scripts: test/<directory>/test_*.sh.
TEST_DIRS      := unit store crash sim server graph flow agent carto e2e
TEST_SRC       := $(sort $(wildcard $(TEST_DIRS:%=test/%/test_*.c)))
TEST_OTHER_SRC := $(sort $(filter-out $(TEST_SRC),$(wildcard $(TEST_DIRS:%=test/%/*.c))))
SUPPORT_SRC    := $(sort $(wildcard test/support/*.c))
TEST_SCRIPTS   := $(sort $(wildcard test/*/test_*.sh))
# What scripts need and no program of ours has: test/tools/<name>.c is built as $(B)/test/tools/<name>.
TEST_TOOL_SRC  := $(sort $(wildcard test/tools/*.c))
FUZZ_SRC       := $(sort $(wildcard test/fuzz/fuzz_*.c))
REPLAY_SRC     := test/fuzz/replay.c

# A benchmark is a bench/bench_*.c; the other files of the directory are shared by all of them.
BENCH_SRC       := $(sort $(wildcard bench/bench_*.c))
BENCH_OTHER_SRC := $(sort $(filter-out $(BENCH_SRC),$(wildcard bench/*.c)))

BUILT_SRC := $(LIBRARY_SRC) $(PROGRAM_SRC) $(EXAMPLE_SRC) $(TEST_SRC) $(TEST_OTHER_SRC) $(SUPPORT_SRC) $(FUZZ_SRC) \
             $(REPLAY_SRC) $(TEST_TOOL_SRC) $(BENCH_SRC) $(BENCH_OTHER_SRC)

# --------------------------------------------------------------------------------------------------------- flags

LANGUAGE := -std=gnu17 -D_GNU_SOURCE -Iinclude -Isrc
# Machine paths stay out of the objects, so that two builds of one commit are equal wherever they are made.
COMMON   := -g -fvisibility=hidden -fno-strict-aliasing -fno-strict-overflow -fno-delete-null-pointer-checks \
            -ffile-prefix-map=$(CURDIR)=.

WARNINGS     := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wmissing-prototypes \
                -Wstrict-prototypes -Wvla -Wundef -Wcast-qual -Wformat=2 -Wimplicit-fallthrough \
                -Werror=format-security -Werror=implicit -Werror=int-conversion \
                -Werror=incompatible-pointer-types $(if $(WERROR),-Werror)
WARNINGS_GCC := -Wduplicated-cond -Wduplicated-branches -Wlogical-op -Wtrampolines -Wbidi-chars=any

HARDENING := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -fstack-protector-strong -fstack-clash-protection \
             -fcf-protection=full -ftrivial-auto-var-init=zero -Wnull-dereference
HARDENING_LINK := -Wl,-z,relro,-z,now -Wl,-z,noexecstack

FAILPOINTS := -DQP_FAILPOINTS
UNDEFINED  := undefined,float-cast-overflow
SANITIZER  := -fno-sanitize-recover=all -fno-omit-frame-pointer

CC_release      := $(CC)
CFLAGS_release  := -O2 $(HARDENING) $(WARNINGS_GCC)
LDFLAGS_release := $(HARDENING_LINK)
# Of what only tests run, line numbers are enough of the debugging information: a quarter of the compiler's time.
CC_test         := $(CC)
CFLAGS_test     := -O1 -g1 $(HARDENING) $(WARNINGS_GCC) $(FAILPOINTS)
LDFLAGS_test    := $(HARDENING_LINK)
CC_asan         := $(CC)
CFLAGS_asan     := -O1 -g1 -fsanitize=address,$(UNDEFINED) $(SANITIZER) $(WARNINGS_GCC) $(FAILPOINTS)
LDFLAGS_asan    := -fsanitize=address,$(UNDEFINED)
CC_tsan         := $(CC)
CFLAGS_tsan     := -O1 -g1 -fsanitize=thread $(SANITIZER) $(WARNINGS_GCC) $(FAILPOINTS)
LDFLAGS_tsan    := -fsanitize=thread
CC_cov          := $(CC)
CFLAGS_cov      := -O0 --coverage -fprofile-update=atomic $(WARNINGS_GCC) $(FAILPOINTS)
LDFLAGS_cov     := --coverage
CC_fuzz         := $(CLANG)
CFLAGS_fuzz     := -O1 -g1 -fsanitize=fuzzer-no-link,address,$(UNDEFINED) $(SANITIZER)
LDFLAGS_fuzz    := -fsanitize=fuzzer,address,$(UNDEFINED)

# Some 270 programs are linked for the short lane, and lld does that in less than half of the time (ADR 56). What is
# shipped is linked by the compiler's own choice.
FAST_LINKER  := $(if $(shell command -v ld.lld),-fuse-ld=lld)
LDFLAGS_test += $(FAST_LINKER)
LDFLAGS_asan += $(FAST_LINKER)
LDFLAGS_tsan += $(FAST_LINKER)

# Flags of single directories: only the library is position-independent; examples see the public header alone.
LANGUAGE_examples := -std=gnu17 -D_GNU_SOURCE -Iinclude
language_for = $(if $(filter examples/%,$(1)),$(LANGUAGE_examples),$(LANGUAGE)) \
               $(if $(filter test/% bench/%,$(1)),-Itest -I$(B)/generated -Wno-unused-parameter) \
               $(if $(filter src/cli/new.c,$(1)),-I$(B)/generated) \
               $(if $(filter $(LIBRARY_SRC),$(1)),-fPIC,-fPIE)

LIBS         := -Wl,--as-needed -lsqlite3 -lpq -ljansson -lyaml -lcrypto -lpthread -lm
SERVER_LIBS  := $(LIBS) -lmicrohttpd
PROGRAM_LIBS := $(SERVER_LIBS) -lcurl
TEST_LIBS    := -lcmocka $(SERVER_LIBS)

# ------------------------------------------------------------------------------------------------------ variants

VARIANTS      := release test asan tsan cov fuzz
TEST_VARIANTS := test asan tsan cov
directory      = $(B)$(filter-out /release,/$(1))
objects        = $(patsubst %.c,$(call directory,$(1))/obj/%.o,$(2))
test_programs  = $(patsubst %.c,$(call directory,$(1))/%,$(filter $(2:%=test/%/test_$(T).c),$(TEST_SRC)))

.PHONY: all
all: $(B)/quipu $(B)/libquipu.a $(B)/libquipu.so $(B)/quipu.pc $(B)/quipu.1 examples ## build the program and the libraries (default)

# $(1) is a variant. Its stamp holds the flags: when they change, its objects are made again.
define variant_rules
$(call directory,$(1))/obj/%.o: %.c $(call directory,$(1))/flags
	@mkdir -p $$(@D)
	@echo "  CC    $$@"
	$$(Q)$$(CC_$(1)) $$(call language_for,$$<) $$(COMMON) $$(WARNINGS) $$(CFLAGS_$(1)) -MMD -MP -c -o $$@ $$<

$(call directory,$(1))/flags: FORCE
	@tools/stamp $$@ '$$(CC_$(1)) $$(LANGUAGE) $$(COMMON) $$(filter-out -Werror,$$(WARNINGS)) $$(CFLAGS_$(1)) $$(LDFLAGS_$(1))'
endef
$(foreach variant,$(VARIANTS),$(eval $(call variant_rules,$(variant))))

# The list of all sources: programs are linked again when a file comes or goes, and tools/tidy finds what nobody builds.
$(B)/sources: FORCE
	@tools/stamp $@ '$(BUILT_SRC)'

# The failpoints of the source, for the test that hits every one of them: FAILPOINT_LIST(X) is X("name") for each.
$(B)/generated/failpoints.h: FORCE
	@tools/stamp $@ "#define FAILPOINT_LIST(X) $$(tools/failpoints | sed 's/.*/X("&")/' | tr '\n' ' ')"
$(foreach variant,$(TEST_VARIANTS),$(call objects,$(variant),test/crash/test_failpoints.c test/crash/test_failpoints_server.c)): $(B)/generated/failpoints.h

# Files of ours that `quipu new` writes into a project.
$(B)/generated/cli/templates.h: FORCE
	@tools/stamp $@ "$$(tools/templates)"
$(foreach variant,release $(TEST_VARIANTS),$(call objects,$(variant),src/cli/new.c)): $(B)/generated/cli/templates.h

-include $(shell find $(B) -name '*.d' 2>/dev/null)

# ------------------------------------------------------------------------------------------ library and program

LIBRARY_OBJ := $(call objects,release,$(LIBRARY_SRC))
PROGRAM_OBJ := $(call objects,release,$(PROGRAM_SRC))

# One object in which everything but the public functions is local, so that a program that links the archive keeps all
# names but qp_* for itself.
$(B)/libquipu.o: $(LIBRARY_OBJ) $(B)/sources
	@echo "  LD    $@"
	$(Q)$(LD) -r -o $@ $(LIBRARY_OBJ)
	$(Q)objcopy --localize-hidden $@

$(B)/libquipu.a: $(B)/libquipu.o
	@echo "  AR    $@"
	$(Q)rm -f $@ && $(AR) rcsD $@ $<

$(B)/libquipu.so.$(SOVERSION): $(LIBRARY_OBJ) src/libquipu.map $(B)/sources
	@echo "  LD    $@"
	$(Q)$(CC) -shared -Wl,-soname,libquipu.so.$(SOVERSION) -Wl,--version-script=src/libquipu.map -Wl,-z,defs \
	    $(LDFLAGS_release) -o $@ $(LIBRARY_OBJ) $(LIBS)

$(B)/libquipu.so: $(B)/libquipu.so.$(SOVERSION)
	$(Q)ln -sf $(<F) $@

$(B)/quipu: $(PROGRAM_OBJ) $(LIBRARY_OBJ) $(B)/sources
	@echo "  LD    $@"
	$(Q)$(CC) -pie $(LDFLAGS_release) -Wl,-z,nodlopen -o $@ $(PROGRAM_OBJ) $(LIBRARY_OBJ) $(PROGRAM_LIBS)

# The program with sanitizers, for the tests of the command line in the long lane.
$(B)/asan/quipu: $(call objects,asan,$(call sources_of,cli)) $(B)/asan/library.a
	@echo "  LD    $@"
	$(Q)$(CC_asan) $(LDFLAGS_asan) -o $@ $^ $(PROGRAM_LIBS)

# The manual is what the program says about itself.
$(B)/quipu.1: $(B)/quipu
	$(Q)$< help -o man > $@

# $(1) is the prefix
pc_text = sed -e 's|@PREFIX@|$(1)|' -e 's|@VERSION@|$(VERSION)|' quipu.pc.in

$(B)/quipu.pc: quipu.pc.in include/quipu.h
	@mkdir -p $(@D)
	$(Q)$(call pc_text,$(PREFIX)) > $@

# ------------------------------------------------------------------------------------------ examples, benchmarks

EXAMPLES := $(patsubst %.c,$(B)/%,$(EXAMPLE_SRC))
BENCHES  := $(patsubst %.c,$(B)/%,$(BENCH_SRC))

.PHONY: examples
examples: $(EXAMPLES)

$(EXAMPLES): $(B)/%: $(B)/obj/%.o $(B)/libquipu.a
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) -pie $(LDFLAGS_release) -o $@ $^ $(LIBS)

# Benchmarks and the tools of scripts may use what test/support offers; the linker takes from the archive only what they
# name.
$(B)/libsupport.a: $(call objects,release,$(SUPPORT_SRC)) $(B)/sources
	$(Q)rm -f $@ && $(AR) rcsD $@ $(filter %.o,$^)

$(BENCHES): $(B)/%: $(B)/obj/%.o $(call objects,release,$(BENCH_OTHER_SRC)) $(B)/libsupport.a $(B)/library.a
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) -pie $(LDFLAGS_release) -o $@ $^ $(TEST_LIBS)

TEST_TOOLS := $(patsubst %.c,$(B)/%,$(TEST_TOOL_SRC))

$(TEST_TOOLS): $(B)/%: $(B)/obj/%.o $(B)/libsupport.a $(B)/library.a
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) -pie $(LDFLAGS_release) -o $@ $^ $(TEST_LIBS)

# --------------------------------------------------------------------------------------------------------- tests

# Tests take what they need from an archive of the variant, so that a test of one file links while another file is being
# written. $(1) is a variant.
define archive_rules
$(call directory,$(1))/library.a: $(call objects,$(1),$(LIBRARY_SRC) $(SERVER_SRC)) $(B)/sources
	$$(Q)rm -f $$@ && $$(AR) rcsTD $$@ $$(filter %.o,$$^)
endef
$(foreach variant,$(VARIANTS),$(eval $(call archive_rules,$(variant))))

# $(1) is a variant, $(2) the source of a test program
define test_rules
$(call directory,$(1))/$(2:.c=): $(call objects,$(1),$(2) $(filter $(dir $(2))%,$(TEST_OTHER_SRC)) $(SUPPORT_SRC)) \
                              $(call directory,$(1))/library.a
	@mkdir -p $$(@D)
	@echo "  LD    $$@"
	$$(Q)$$(CC_$(1)) $$(LDFLAGS_$(1)) -o $$@ $$^ $$(TEST_LIBS)
endef
$(foreach variant,$(TEST_VARIANTS),$(foreach source,$(TEST_SRC),$(eval $(call test_rules,$(variant),$(source)))))

FUZZERS := $(patsubst test/fuzz/%.c,$(B)/fuzz/%,$(FUZZ_SRC))

$(FUZZERS): $(B)/fuzz/%: $(B)/fuzz/obj/test/fuzz/%.o $(B)/fuzz/library.a
	@echo "  LD    $@"
	$(Q)$(CLANG) $(LDFLAGS_fuzz) -o $@ $^ $(SERVER_LIBS)

# The same targets without libFuzzer, on the objects of the tests: they run over their corpora, and search for nothing.
REPLAYS := $(patsubst %.c,$(B)/asan/%,$(FUZZ_SRC))

$(REPLAYS): $(B)/asan/%: $(B)/asan/obj/%.o $(call objects,asan,$(REPLAY_SRC)) $(B)/asan/library.a
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC_asan) $(LDFLAGS_asan) -o $@ $^ $(SERVER_LIBS)

RUN := QP_BUILD=$(B) tools/runtests

.PHONY: unit store crash server test asan tsan cov
unit: $(call test_programs,asan,unit) ## unit tests, one program per source file, sanitized
	$(Q)$(RUN) $^
store: $(call test_programs,asan,store) ## conformance of the store and its providers, sanitized
	$(Q)$(RUN) $^
crash: $(call test_programs,asan,crash) ## crashes and injected faults, sanitized
	$(Q)$(RUN) $^
server: $(call test_programs,asan,server) ## the server and its API, sanitized
	$(Q)$(RUN) $^
test: $(call test_programs,test,$(TEST_DIRS)) ## all test programs, failpoints on, no sanitizer
	$(Q)$(RUN) $^
asan: $(call test_programs,asan,$(TEST_DIRS)) ## all test programs with address and undefined-behaviour sanitizers
	$(Q)$(RUN) $^
tsan: $(call test_programs,tsan,$(TEST_DIRS)) ## all test programs with the thread sanitizer
	$(Q)$(RUN) $^
cov: $(call test_programs,cov,$(TEST_DIRS)) ## coverage of lines and branches, per file
	$(Q)find $(B)/cov -name '*.gcda' -delete
	$(Q)$(RUN) $^
	$(Q)tools/coverage $(B)/cov

# make sim: the seeds of the lane. SEED=S SEEDS=N: N of them from S on. SEED=S alone: one; WITHOUT=1,5 leaves out single
# faults, PRINT=1 shows what happens.
.PHONY: sim
sim: $(B)/test/test/sim/test_sim ## the kernel on virtual time: SEED= SEEDS= WITHOUT= PRINT=1
	$(Q)$< $(if $(SEEDS),--seeds $(SEEDS)) $(if $(SEED),--seed $(SEED)) $(if $(WITHOUT),--without $(WITHOUT)) \
	    $(if $(SCENE),--scene $(SCENE)) $(if $(MODEL),--model $(MODEL)) $(if $(PRINT),--print)

# ---------------------------------------------------------------------------------------------------------- lint

LINT := tools/tidy tools/fmt@--check tools/doctables@--check tools/traceability tools/failpoints@--check tools/symbols tools/hardening \
        tools/headers tools/clang tools/cppcheck tools/cycles tools/mutants@--check

.PHONY: lint fmt fmt-check clang-flags clang-sources
clang-flags:
	@echo $(LANGUAGE) -Itest $(WARNINGS)
clang-sources:
	@echo $(LIBRARY_SRC) $(SERVER_SRC) $(FUZZ_SRC)
lint: all $(B)/sources ## style, layers, format, exported names, hardening, traceability
	$(Q)$(RUN) $(LINT)
fmt: ## format the C sources
	$(Q)tools/fmt
fmt-check: ## is everything formatted?
	$(Q)tools/fmt --check

# --------------------------------------------------------------------------------------------- fuzz and benchmark

.PHONY: fuzz fuzz-replay bench
fuzz: $(FUZZERS) ## fuzz every target for FUZZ_SECONDS
	$(Q)FUZZ_SECONDS=$(FUZZ_SECONDS) QP_BUILD=$(B) tools/fuzz $^
fuzz-replay: $(REPLAYS) ## run the committed corpora through the fuzz targets
	$(Q)FUZZ_SECONDS=0 QP_BUILD=$(B) tools/fuzz $^
# STORE=postgres: those on a server of their own.
STORE ?= sqlite
bench: $(filter $(if $(filter postgres,$(STORE)),%_postgres,%),$(filter-out $(if $(filter postgres,$(STORE)),,%_postgres),$(BENCHES))) ## run the benchmarks; STORE=postgres: those of PostgreSQL
	$(Q)set -e; for program in $^; do $$program; done

# -------------------------------------------------------------------------------------------------- the two lanes

# What a lane runs, as one list for one runner, so that the last line is the total of everything. Every test runs with the
# address sanitizer. A second time without sanitizers, since faster code meets other interleavings, and a third time with
# the thread sanitizer, those of which that can be said:
#
#   threads    several threads of one process: elsewhere the thread sanitizer has nothing to find
#   meetings   several threads or processes at the same time: all others do the same again, step by step
#
# Their sources tell, so that nobody has to keep a list. The long lane runs everything in all variants. Not run again at
# all: those that are one thread and a server, since what they wait for is the server. The simulator has its seeds without
# sanitizers, and a few with; so have the kills of graphs. The chaos of a server has its sanitizers alone in the short
# lane: its time is that of the faults. What judges times is for the end of the long lane, where it is alone.
sources_with   = $(shell grep -lE '$(1)' $(TEST_SRC))
programs_from  = $(filter $(patsubst %.c,$(call directory,$(1))/%,$(3)),$(call test_programs,$(1),$(2)))
THREADS       := pthread_create|rt_threads|qp_start_threads|pgproxy_start
WITH_THREADS  := $(call sources_with,$(THREADS))
WITH_MEETINGS := $(call sources_with,$(THREADS)|SIGKILL|storetest_second|enginetest_second)
SERVER_TESTS  := %/test_pg_copy %/test_pg_functions %/test_pg_places %/test_pg_cache %/test_pg_limits %/test_copy_kill
CHECK_PROGRAMS   := $(call test_programs,asan,$(TEST_DIRS)) \
                    $(filter-out $(SERVER_TESTS) $(B)/test/%/test_pg_chaos, \
                                                 $(call programs_from,test,store crash,$(WITH_MEETINGS)) \
                                                 $(call test_programs,test,sim) \
                                                 $(filter %/test_kills,$(call test_programs,test,graph)) \
                                                 $(call programs_from,tsan,unit store server,$(WITH_THREADS))) $(EXAMPLES)
TORTURE_PROGRAMS := $(call test_programs,asan,$(TEST_DIRS)) \
                    $(filter-out $(SERVER_TESTS),$(call test_programs,test,store crash sim) \
                                                 $(call test_programs,tsan,unit store server)) $(EXAMPLES)
# What takes long begins first, or the lane ends with one program and an idle processor. What waits more than it computes
# (the runner prints both) has a place of its own beside the others.
LONG             := tools/cppcheck %/store/test_conformance %/graph/test_kills %/carto/test_oracle.sh %/store/test_isolation \
                    %/crash/test_copy_kill %/crash/test_oom %/crash/test_failpoints %/flow/test_flows %/store/test_random
WAITING          := %/server/test_outage %/server/test_serve_kill %/e2e/test_blackbox %/cli/test_embedder.sh %/cli/test_postgres.sh \
                    %/cli/test_live.sh %/cli/test_whole.sh %/cli/test_jobs.sh %/cli/test_stumbles.sh %/cli/test_people.sh %/cli/test_graph_jobs.sh %/cli/test_docs.sh \
                    %/flow/test_cancel_kill %/agent/test_clients.sh %/cli/test_migrate_postgres.sh %/server/test_serve.sh %/server/test_flow_drills.sh %/server/test_flow_upgrade.sh %/server/test_flow_mixed.sh %/server/test_flow_perl.sh %/server/test_flow_work \
                    %/server/test_http %/server/test_attack %/server/test_idle_polls %/server/test_faults %/server/test_reception \
                    %/unit/test_misuse %/unit/test_ready %/unit/test_builtin %/unit/test_limits %/unit/test_level \
                    %/store/test_pg_wake %/store/test_pg_copy %/crash/test_pg_limits %/carto/test_external.sh %/cli/test_carto_npm.sh %/cli/test_agent_traces.sh
long_first        = $(filter $(LONG),$(1)) $(filter-out $(LONG) $(WAITING),$(1)) --beside $(filter $(WAITING),$(1))
LANE_CHECK       := $(call long_first,$(LINT) $(CHECK_PROGRAMS) $(TEST_SCRIPTS))
LANE_TORTURE     := $(LINT) $(TORTURE_PROGRAMS) $(TEST_SCRIPTS)
ALONE            := $(B)/test/test/server/test_attack
# The runner splits a word at its @ signs into a command and its arguments.
space := $(subst ,, )
fuzz_command = tools/fuzz@$(subst $(space),@,$(1))

.PHONY: check check-build check-lane torture torture-lane mutants
check: deps ## everything of the short lane: builds, lint, all tests; last line: N passed, N failed
	$(Q)$(MAKE) WERROR=1 check-lane
check-build: all $(CHECK_PROGRAMS) $(TEST_TOOLS) $(REPLAYS) $(BENCHES) ## build what the short lane runs, and run nothing
check-lane: check-build
	$(Q)QP_LANE=check FUZZ_SECONDS=0 $(RUN) $(call fuzz_command,$(REPLAYS)) $(LANE_CHECK)
torture: deps ## the long lane: the same tests without sampling, fuzzing, benchmark smoke
	$(Q)$(MAKE) WERROR=1 torture-lane
torture-lane: all $(B)/asan/quipu $(TORTURE_PROGRAMS) $(ALONE) $(TEST_TOOLS) $(FUZZERS) $(BENCHES)
	$(Q)QP_LANE=torture FUZZ_SECONDS=$(FUZZ_SECONDS) BENCH_SMOKE=1 $(RUN) $(LANE_TORTURE) $(call fuzz_command,$(FUZZERS)) $(BENCHES) tools/mutants --alone $(ALONE)
mutants: ## remove the guards of the ledger protocol one by one: a test must notice (part of torture)
	$(Q)tools/mutants

# ----------------------------------------------------------------------------------------------------------- rest

.PHONY: deps run install clean help FORCE
deps: ## install the Debian packages of tools/deps.txt that are missing
	$(Q)tools/deps
run: deps ## see it work: an order, a SIGKILL in the middle, a recovery
	$(Q)$(MAKE) all
	$(Q)$(B)/quipu demo

install: all ## install to $(DESTDIR)$(PREFIX)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/lib/pkgconfig
	install -m 755 $(B)/quipu $(DESTDIR)$(PREFIX)/bin/quipu
	install -m 644 include/quipu.h $(DESTDIR)$(PREFIX)/include/quipu.h
	install -m 644 $(B)/libquipu.a $(DESTDIR)$(PREFIX)/lib/libquipu.a
	install -m 755 $(B)/libquipu.so.$(SOVERSION) $(DESTDIR)$(PREFIX)/lib/libquipu.so.$(SOVERSION)
	ln -sf libquipu.so.$(SOVERSION) $(DESTDIR)$(PREFIX)/lib/libquipu.so
	$(call pc_text,$(PREFIX)) > $(DESTDIR)$(PREFIX)/lib/pkgconfig/quipu.pc
	install -d $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/bash-completion/completions \
	    $(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	install -m 644 $(B)/quipu.1 $(DESTDIR)$(PREFIX)/share/man/man1/quipu.1
	$(B)/quipu completion bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/quipu
	$(B)/quipu completion zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_quipu
	$(B)/quipu completion fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/quipu.fish
	install -d $(DESTDIR)$(PREFIX)/share/quipu
	install -m 644 share/quipu.service share/alerts.yml share/grafana.json $(DESTDIR)$(PREFIX)/share/quipu

clean: ## remove the output directory
	rm -rf $(B)

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
FORCE:
