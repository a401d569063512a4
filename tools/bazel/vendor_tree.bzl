"""What the libdatadog gem keeps in its vendor folder, made of our library."""

def _impl(ctx):
    out = ctx.actions.declare_directory(ctx.label.name)
    headers = ctx.files.headers
    texts = ctx.files.texts
    ctx.actions.run(
        outputs = [out],
        inputs = headers + texts + [ctx.file.shared, ctx.file.archive, ctx.file.standalone],
        executable = ctx.executable._tool,
        arguments = [
            out.path,
            ctx.var.get("VENDOR_PLATFORM", ctx.attr.platform),
            ctx.var.get("VENDOR_TRIPLE", ctx.attr.triple),
            ctx.attr.version,
            ctx.file.shared.path,
            ctx.file.archive.path,
            ctx.file.standalone.path,
        ] + [file.path for file in headers + texts],
        mnemonic = "VendorTree",
        progress_message = "Laying out %s" % out.short_path,
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([out]), runfiles = ctx.runfiles(files = [out]))]

vendor_tree = rule(
    implementation = _impl,
    attrs = {
        "archive": attr.label(allow_single_file = [".a"], mandatory = True),
        "headers": attr.label_list(allow_files = [".h"], mandatory = True),
        "platform": attr.string(mandatory = True, doc = "as RubyGems names it, without -gnu; --define=VENDOR_PLATFORM goes before"),
        "shared": attr.label(allow_single_file = [".so"], mandatory = True),
        "standalone": attr.label(allow_single_file = [".a"], mandatory = True),
        "texts": attr.label_list(allow_files = True, doc = "licences"),
        "triple": attr.string(mandatory = True),
        "version": attr.string(mandatory = True),
        "_tool": attr.label(
            cfg = "exec",
            default = "//tools/bazel:vendor_tree",
            executable = True,
        ),
    },
    doc = "NAME/PLATFORM/libdatadog-TRIPLE/{include/datadog,lib,lib/pkgconfig}: for LIBDATADOG_VENDOR_OVERRIDE=.../NAME",
)
