"""The user's Ruby: its headers as a cc_library, its name and version as Starlark constants."""

_ASK = """
c = RbConfig::CONFIG
puts c["rubyhdrdir"], c["rubyarchhdrdir"], RUBY_VERSION, RUBY_PLATFORM, c["DLEXT"], c["ENABLE_SHARED"], c["RUBY_SO_NAME"], c["libdir"], RbConfig.ruby
"""

_BUILD = """
load("@rules_cc//cc:defs.bzl", "cc_library")

package(default_visibility = ["//visibility:public"])

cc_library(
    name = "headers",
    hdrs = glob(["include/**/*.h", "arch/**/*.h"]),
    includes = ["arch", "include"],
)

filegroup(
    name = "mjit_header",
    srcs = glob(["arch/rb_mjit_min_header-*.h"], allow_empty = True),
)

exports_files(["ruby"])
"""

_CONFIG = """
# What RbConfig says of the Ruby that this build is for.
RUBY_VERSION = {version}
RUBY_PLATFORM = {platform}
DLEXT = {dlext}
ENABLE_SHARED = {shared}
MJIT_HEADER = {mjit_header}

# What an extension is linked with, so that it can only work on this Ruby.
LIBRUBY_LINKOPTS = {libruby}
"""

# Those whose inside ruby/profiler/private_vm_access.c knows.
_PRIVATE_TIER_SERIES = ["2.7", "3.1"]

# The header of this Ruby's inside, or "" where there is none that the profiler knows what to do with. It was made by and
# for the compiler that Ruby was built by: another one (clang, for gcc's) may not be able to read it.
def _mjit_header(ctx, arch, version):
    header = "rb_mjit_min_header-%s.h" % version
    known = ".".join(version.split(".")[:2]) in _PRIVATE_TIER_SERIES
    if not known or not ctx.path(arch + "/" + header).exists:
        return ""
    ctx.file("try_mjit_header.c", '#include "%s"\n' % header)
    compiler = ctx.os.environ.get("CC") or ctx.which("gcc") or ctx.which("cc") or ""
    answer = ctx.execute([compiler, "-w", "-fsyntax-only", "-Iarch", "-Iinclude", "try_mjit_header.c"])
    return "" if answer.return_code else header

def _impl(ctx):
    ruby = ctx.os.environ.get("NF_RUBY") or ctx.which("ruby")
    if not ruby:
        fail("no ruby in PATH (Debian: apt-get install ruby-dev; another Ruby: --repo_env=NF_RUBY=/path/to/ruby)")
    answer = ctx.execute([ruby, "-rrbconfig", "-e", _ASK])
    if answer.return_code:
        fail("%s cannot be asked for its configuration: %s" % (ruby, answer.stderr))
    hdr, arch, version, platform, dlext, shared, so_name, libdir, exe = answer.stdout.strip().split("\n")
    if not ctx.path(hdr + "/ruby.h").exists:
        fail("%s has no headers at %s (Debian: apt-get install ruby-dev)" % (exe, hdr))
    ctx.symlink(hdr, "include")
    ctx.symlink(arch, "arch")
    ctx.symlink(exe, "ruby")
    ctx.file("BUILD", _BUILD)
    ctx.file("config.bzl", _CONFIG.format(
        version = repr(version),
        platform = repr(platform),
        dlext = repr(dlext),
        shared = repr(shared == "yes"),
        libruby = repr(["-L" + libdir, "-l" + so_name] if shared == "yes" else []),
        mjit_header = repr(_mjit_header(ctx, arch, version)),
    ))

ruby_repository = repository_rule(
    implementation = _impl,
    configure = True,
    environ = ["CC", "NF_RUBY", "PATH"],
    local = True,
    doc = "The Ruby that NF_RUBY names, or the first in PATH.",
)
