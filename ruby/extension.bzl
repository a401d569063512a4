"""The Ruby extensions: each as a library that can be linked into a Ruby, and as a file for `require`."""

load("@ruby//:config.bzl", "LIBRUBY_LINKOPTS")
load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library")
load("//tools/bazel:flags.bzl", "WARNINGS")

_EXPORTS = "//ruby:exports.lds"

def ruby_extension(name, srcs, deps = [], linkopts = [], local_defines = []):
    """NAME, a library with Init_NAME and all that it needs, and NAME.so.

    Args:
      name: Ruby calls Init_NAME.
      srcs: C files.
      deps: what they use besides Ruby's headers.
      linkopts: system libraries that they use.
      local_defines: for the compiler.
    """
    cc_library(
        name = name,
        srcs = srcs,
        alwayslink = True,
        copts = WARNINGS + ["-O2"],
        linkopts = linkopts,
        linkstatic = True,
        local_defines = local_defines,
        deps = deps + ["@ruby//:headers"],
    )
    extension_file(
        name = name,
        deps = [":" + name],
    )

def extension_file(name, **kwargs):
    """NAME.so for `require`: only Init_… is visible from outside.

    Args:
      name: of the extension.
      **kwargs: as for any cc_binary: srcs, deps, copts, local_defines.
    """
    cc_binary(
        name = name + ".so",
        additional_linker_inputs = [_EXPORTS],
        linkopts = [
            "-Wl,--version-script=$(location %s)" % _EXPORTS,
            "-Wl,--as-needed", # no C++ library in a Ruby process that needs none
        ] + LIBRUBY_LINKOPTS,
        linkshared = True,
        **kwargs
    )
