"""A gem built from files of this tree."""

def _destination(path, layout):
    best = None
    for prefix in layout:
        if path.startswith(prefix) and (best == None or len(prefix) > len(best)):
            best = prefix
    if best == None:
        fail("%s has no place in the gem" % path)
    return layout[best] + path[len(best):]

def _impl(ctx):
    out = ctx.actions.declare_file(ctx.attr.out)
    pairs = []
    for file in ctx.files.srcs:
        pairs.append("%s=%s" % (_destination(file.short_path, ctx.attr.layout), file.path))
    list_file = ctx.actions.declare_file(ctx.label.name + ".files")
    ctx.actions.write(list_file, "\n".join(pairs) + "\n")
    ctx.actions.run(
        outputs = [out],
        inputs = ctx.files.srcs + [list_file],
        executable = ctx.executable._tool,
        arguments = [out.path, ctx.attr.gemspec, list_file.path],
        mnemonic = "Gem",
        progress_message = "Building %s" % out.short_path,
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([out]), runfiles = ctx.runfiles([out]))]

ruby_gem = rule(
    implementation = _impl,
    attrs = {
        "gemspec": attr.string(mandatory = True, doc = "its path in the gem"),
        "layout": attr.string_dict(mandatory = True, doc = "path prefix in this tree: prefix in the gem; the longest wins"),
        "out": attr.string(mandatory = True),
        "srcs": attr.label_list(allow_files = True, mandatory = True),
        "_tool": attr.label(
            cfg = "exec",
            default = "//tools/bazel:build_gem",
            executable = True,
        ),
    },
    doc = "OUT, made by `gem build`; equal input gives equal bytes.",
)
