"""What a build takes from the system it runs on, for WORKSPACE (Bazel 4) and MODULE.bazel (Bazel 7) alike."""

load(":libcurl.bzl", "libcurl_repository")
load(":pkg_config.bzl", "pkg_config_repository")
load(":ruby.bzl", "ruby_repository")

# Repository: pkg-config's name.
_LIBRARIES = {
    "curl": "libcurl",
    "gtest": "gmock_main",
    "lz4": "liblz4",
    "protobuf_c": "libprotobuf-c",
    "zlib": "zlib",
    "zstd": "libzstd",
}

def system_repositories():
    for name, module in _LIBRARIES.items():
        # A module extension gives a repository a longer name than the one that it is known by.
        pkg_config_repository(name = name, module = module, target = name)
    libcurl_repository(name = "libcurl")
    ruby_repository(name = "ruby")
