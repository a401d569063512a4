"""Spec files as Bazel tests."""

def rspec_test(name, size = "medium", data = [], **kwargs):
    """Runs <name>.rb with the Ruby of the build and the extension that was built for it.

    Args:
      name: of the test, and of the spec file without its ending.
      size: as for any test.
      data: more files that the spec reads.
      **kwargs: passed on to sh_test.
    """
    native.sh_test(
        name = name,
        size = size,
        srcs = ["//tests/ruby:run_spec.sh"],
        args = [
            "$(rootpath @ruby//:ruby)",
            native.package_name() + "/" + name + ".rb",
        ],
        data = data + [
            name + ".rb",
            "//ruby:extension",
            "//tests/ruby:support",
            "@ruby//:ruby",
        ],
        **kwargs
    )
