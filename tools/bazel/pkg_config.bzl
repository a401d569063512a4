"""System libraries, found through pkg-config."""

_BUILD = """
load("@rules_cc//cc:defs.bzl", "cc_library")

cc_library(
    name = {name},
    copts = {copts},
    defines = {defines},
    linkopts = {linkopts},
    visibility = ["//visibility:public"],
)
"""

def _pkg_config(ctx, *args):
    tool = ctx.which("pkg-config") or ctx.which("pkgconf")
    if not tool:
        fail("pkg-config is missing (Debian: apt-get install pkg-config)")
    result = ctx.execute([tool] + list(args) + [ctx.attr.module])
    if result.return_code:
        fail("%s: %s" % (ctx.attr.module, result.stderr.strip()))
    return [word for word in result.stdout.strip().split(" ") if word]

def _impl(ctx):
    cflags = _pkg_config(ctx, "--cflags")
    ctx.file("BUILD", _BUILD.format(
        name = repr(ctx.attr.target or ctx.name),
        copts = repr([f for f in cflags if not f.startswith("-D")]),
        defines = repr([f[2:] for f in cflags if f.startswith("-D")]),
        linkopts = repr(_pkg_config(ctx, "--libs")),
    ))

pkg_config_repository = repository_rule(
    implementation = _impl,
    attrs = {
        "module": attr.string(mandatory = True, doc = "pkg-config's name of the library"),
        "target": attr.string(doc = "name of the cc_library; default: the repository's own name"),
    },
    configure = True,
    environ = ["PATH", "PKG_CONFIG_PATH"],
    local = True,
    doc = "A repository with one cc_library: the flags of a library that is installed on the system.",
)
