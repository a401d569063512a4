"""The module extension for MODULE.bazel."""

load(":system.bzl", "system_repositories")

system = module_extension(
    implementation = lambda _: system_repositories(),
)
