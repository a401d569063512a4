"""One static archive out of many libraries, in which only the public symbols stay global."""

def _impl(ctx):
    archives = []
    for dep in ctx.attr.deps:
        for linker_input in dep[CcInfo].linking_context.linker_inputs.to_list():
            for library in linker_input.libraries:
                archive = library.pic_static_library or library.static_library
                if archive:
                    archives.append(archive)
    out = ctx.actions.declare_file("lib%s.a" % ctx.attr.library)
    ctx.actions.run_shell(
        outputs = [out],
        inputs = archives,
        # A partial link resolves what the objects want of each other, then hidden symbols become local: a program
        # that links the archive can neither see nor clash with them.
        command = """set -e
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
out=$1 kept=$2 system=$3; shift 3
for name in $system; do
  archive=$(${CC:-cc} -print-file-name=lib${name%\\?}.a)
  case $name$archive in
  *\\?lib*) ;; # not found, and not needed
  *) found="$found $archive" ;;
  esac
done
ld -r -o "$work/all.o" --whole-archive "$@" --no-whole-archive $found
objcopy --localize-hidden "$work/all.o"
[ -z "$kept" ] || objcopy --wildcard --keep-global-symbol="$kept" "$work/all.o"
rm -f "$out"
ar rcsD "$out" "$work/all.o"
""",
        arguments = [out.path, ctx.attr.keep, " ".join(ctx.attr.system)] + [archive.path for archive in archives],
        mnemonic = "SingleArchive",
        progress_message = "Joining %s" % out.short_path,
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([out]), runfiles = ctx.runfiles([out]))]

single_archive = rule(
    implementation = _impl,
    attrs = {
        "deps": attr.label_list(providers = [CcInfo], mandatory = True),
        "keep": attr.string(doc = "pattern of the only names that stay global; default: all that are not hidden"),
        "library": attr.string(mandatory = True, doc = "NAME of libNAME.a"),
        "system": attr.string_list(doc = "system libraries whose static form goes inside, as far as it is needed; NAME? only if it is there"),
    },
    doc = "libNAME.a: the objects of deps as one; what is not exported is local.",
)
