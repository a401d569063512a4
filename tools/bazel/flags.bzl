"""Compiler flags of our own code (not of generated or third-party code)."""

WARNINGS = ["-Wall", "-Wextra", "-Werror"]
