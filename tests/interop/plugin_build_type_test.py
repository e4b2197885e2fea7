#!/usr/bin/env python3
"""A plugin that is configured without a build type, like the examples, is compiled with optimisation; a given build type is kept.

usage: plugin_build_type_test.py SOURCE_FOLDER COMPILER
"""
import json
import os
import subprocess
import sys
import tempfile

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(mine LANGUAGES CXX)
add_library(headers INTERFACE)
add_library(troupe::plugin ALIAS headers)  # find_package(troupe) defines it
include({plugin})
troupe_add_plugin(mine mine.cpp)
"""


def command_of(folder, source, compiler, *options):
    build = os.path.join(folder, "build" + "".join(options))
    subprocess.run(["cmake", "-G", "Ninja", "-S", folder, "-B", build, f"-DCMAKE_CXX_COMPILER={compiler}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *options],
                   check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(build, "compile_commands.json")) as f:
        return json.load(f)[0]["command"].split()


def main():
    source, compiler = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "CMakeLists.txt"), "w") as f:
            f.write(PROJECT.format(plugin=os.path.join(source, "cmake/plugin.cmake")))
        with open(os.path.join(folder, "mine.cpp"), "w") as f:
            f.write("int mine() { return 1; }\n")
        usual = command_of(folder, source, compiler)
        assert "-O3" in usual, usual
        debug = command_of(folder, source, compiler, "-DCMAKE_BUILD_TYPE=Debug")
        assert "-O3" not in debug and "-g" in debug, debug


if __name__ == "__main__":
    main()
