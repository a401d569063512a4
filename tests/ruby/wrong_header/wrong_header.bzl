"""The profiler with private headers that do not describe the Ruby of the build."""

load("@ruby//:config.bzl", "MJIT_HEADER", "RUBY_VERSION")
load("//ruby:extension.bzl", "extension_file")
load("//tests/ruby:rspec.bzl", "rspec_test")

def _extension(name, header, version = RUBY_VERSION):
    extension_file(
        name = name,
        srcs = ["//ruby:profiler/private_vm_access.c"],
        copts = ["-w"], # code in the header, too, may find the wrong fields of a structure
        local_defines = [
            'RUBY_MJIT_HEADER=\\"%s\\"' % header,
            'NF_RUBY_VERSION=\\"%s\\"' % version,
            "NF_VM_PRIVATE_TIER",
        ],
        deps = ["//ruby:profiler"] + ([":%s_header" % name] if header != MJIT_HEADER else []),
    )

def wrong_header_test(name, variants, variants_with_ractors, variants_without_ractors):
    """One spec over all headers; without a private header there are none, and it says so.

    Args:
      name: of the test and of the spec file.
      variants: name: (structure, field, fields that come to stand before it instead of a new one).
      variants_with_ractors: more of them, where Ruby has Ractors.
      variants_without_ractors: and where it has none.
    """
    extensions = []
    if MJIT_HEADER:
        variants = dict(variants, **(variants_without_ractors if RUBY_VERSION.startswith("2.") else variants_with_ractors))
        _extension("release", MJIT_HEADER, version = RUBY_VERSION + "1")
        extensions.append("release.so")
        for variant, (structure, before, moved) in variants.items():
            native.genrule(
                name = variant + "_shift",
                srcs = ["shift_header.awk", "@ruby//:mjit_header"],
                outs = [variant + ".h"],
                cmd = "awk -v structure='%s' -v before='%s' -v moved='%s' -f $(execpath shift_header.awk) $(execpath @ruby//:mjit_header) >$@" %
                      (structure, before, "|".join(moved)),
            )
            native.cc_library(
                name = variant + "_header",
                hdrs = [variant + ".h"],
            )
            _extension(variant, "%s/%s.h" % (native.package_name(), variant))
            extensions.append(variant + ".so")
    rspec_test(name = name, data = extensions)
