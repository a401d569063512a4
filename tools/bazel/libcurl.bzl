"""A libcurl that becomes part of what the exporter is linked into, for those who want one: see tools/static-libcurl."""

_BUILD = """
load("@rules_cc//cc:defs.bzl", "cc_import", "cc_library")

cc_import(
    name = "archive",
    static_library = "lib/libcurl.a",
)

cc_library(
    name = "libcurl",
    hdrs = glob(["include/curl/*.h"]),
    defines = ["NF_LINKED_LIBCURL"],
    includes = ["include"],
    linkopts = ["-lssl", "-lcrypto"],
    visibility = ["//visibility:public"],
    deps = [":archive"],
)
"""

_NONE = """
load("@rules_cc//cc:defs.bzl", "cc_library")

# exporter/tls.c opens the system's when it needs one.
cc_library(
    name = "libcurl",
    visibility = ["//visibility:public"],
)
"""

def _impl(ctx):
    folder = ctx.os.environ.get("NF_LIBCURL")
    if not folder:
        ctx.file("BUILD", _NONE)
        return
    for part in ["include", "lib"]:
        ctx.symlink("%s/%s" % (folder, part), part)
    if not ctx.path("lib/libcurl.a").exists:
        fail("NF_LIBCURL: there is no lib/libcurl.a in " + folder)
    ctx.file("BUILD", _BUILD)

libcurl_repository = repository_rule(
    implementation = _impl,
    configure = True,
    environ = ["NF_LIBCURL"],
    local = True,
    doc = "@libcurl//:libcurl, an empty library unless --repo_env=NF_LIBCURL=FOLDER names one with include/ and lib/libcurl.a.",
)
