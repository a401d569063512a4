"""Fuzz targets: libFuzzer programs under --config=fuzz, replays of their seeds as tests otherwise."""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_test")
load("//tools/bazel:flags.bzl", "WARNINGS")

def fuzz_target(name, srcs, deps, linkopts = [], mutations = 100):
    """NAME: the program. NAME_test: runs it on corpus/NAME and mutations of what is there, without libFuzzer.

    Args:
      name: of the target, NAME_fuzz.
      srcs: with LLVMFuzzerTestOneInput.
      deps: what is tested.
      linkopts: for both.
      mutations: of each seed, in the test.
    """
    seeds = native.glob(["corpus/%s/*" % name])
    cc_binary(
        name = name,
        testonly = True,
        srcs = srcs,
        copts = WARNINGS,
        linkopts = linkopts + select({
            "//:fuzz": ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        linkstatic = True,
        deps = deps + [":check"] + select({
            "//:fuzz": [],
            "//conditions:default": [":replay"],
        }),
    )
    cc_test(
        name = name + "_test",
        srcs = srcs,
        args = [
            "--mutations",
            str(mutations),
            "tests/fuzz/corpus/" + name,
        ],
        copts = WARNINGS,
        data = seeds,
        linkopts = linkopts,
        linkstatic = True,
        deps = deps + [
            ":check",
            ":replay",
        ],
    )
