"""The rules of rules_cc that this tree uses, as Bazel 4 has them built in.

BUILD files load from @rules_cc so that a newer Bazel, whose rules are no longer built in, can put the real one here.
"""

cc_binary = native.cc_binary
cc_import = native.cc_import
cc_library = native.cc_library
cc_proto_library = native.cc_proto_library
cc_test = native.cc_test
cc_toolchain = native.cc_toolchain
cc_toolchain_suite = native.cc_toolchain_suite
objc_library = native.objc_library
