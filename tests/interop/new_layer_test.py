#!/usr/bin/env python3
"""A new layer needs one file and one catalogue line: adds one to a copy of the tree, builds the operators there and checks the layer.

usage: new_layer_test.py SOURCE_FOLDER COMPILER OPTION...: options for CMake
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

BUILD = "build/release"  # same depth as the tree's build folder, so that ccache finds its objects

LAYER = r"""// cube: y = x^3.  shapes [N, ...] -> same.  dx = 3 x^2 dy.
#include "ops/layer_support.hpp"

namespace troupe {
namespace {

struct cube final : layer {
  shapes infer(const shapes& in) const override {
    want(in.size() == 1, "one input", in);
    return in;
  }
  signatures supported() const override {
    using enum distribution;
    return alike({split_0, split_1, broadcast}, 1);
  }
  void forward(context& c, plan&, const tensors& in, const tensors&, tensors& out, saved&) const override {
    c.dev.map(unary::square, 0.0, in[0], backed(c.dev, out[0]));
    c.dev.apply(binary::multiply, out[0], in[0], out[0]);
  }
  void backward(context& c, plan&, const saved& s, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    if (!wanted(grad_in, 0)) return;
    c.dev.map(unary::square, 0.0, s.inputs[0], backed(c.dev, grad_in[0]));
    c.dev.apply(binary::multiply, grad_in[0], grad_out[0], grad_in[0]);
    c.dev.scale(FACTOR, grad_in[0]);
  }
};

}  // namespace

layer_type cube_layer() {
  return {.name = "cube",
          .doc = "y = x^3, dx = 3 x^2 dy. [N, ...] -> same.",
          .specs = {},
          .make = [](const options&) { return std::make_unique<cube>(); },
          .cases = {example("rows", {}, {{4, 7}}), example("image", {}, {{2, 3, 4, 5}}), example("vector", {}, {{7}}),
                    example("one element", {}, {{1, 1}}), example("long rows", {}, {{2, 37}})}};
}

}  // namespace troupe
"""

CHECK = r"""
#include <cstdio>
#include "ops/check_layer.hpp"
int main() {
  troupe::layer_registry all;
  troupe::add_stock_layers(all);
  const auto* type = all.find("cube");
  if (type == nullptr) return std::puts("the layer is not in the catalogue"), 2;
  const auto findings = troupe::check_layer_type(*type, *troupe::make_cpu_device());
  for (const auto& f : findings) std::puts(f.c_str());
  return findings.empty() ? 0 : 1;
}
"""


def run(words, **more):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    return done.returncode, done.stdout


def built(copy, environment):
    code, out = run(["cmake", "--build", BUILD, "--target", "troupe_ops"], cwd=copy, env=environment)
    assert code == 0, out[-4000:]


def checked(copy, compiler):
    """Returns exit code and output of a program that checks the layer."""
    cache = open(os.path.join(copy, BUILD, "CMakeCache.txt")).read()
    blas = re.search(r"^OPENBLAS_LIBRARY:\w+=(.*)$", cache, re.M).group(1)
    library = os.path.join(copy, BUILD, "lib/libtroupe_ops.a")
    code, out = run([compiler, "-std=c++20", "-I.", "check.cpp", library, blas, "-lpthread", "-o", "check"], cwd=copy)
    assert code == 0, out[-4000:]
    return run(["./check"], cwd=copy)


def main():
    source, compiler, *options = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "tree")
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("build", ".git", "node_modules"))
        layer, catalogue = (os.path.join(copy, "ops/layers", f) for f in ("cube.cpp", "catalog.cpp"))
        text = open(catalogue).read()
        assert text.count("  LAYER(crop) \\\n") == 1
        with open(catalogue, "w") as f:
            f.write(text.replace("  LAYER(crop) \\\n", "  LAYER(crop) \\\n  LAYER(cube) \\\n"))
        with open(os.path.join(copy, "check.cpp"), "w") as f:
            f.write(CHECK)
        environment = dict(os.environ, CCACHE_BASEDIR=copy, CCACHE_NOHASHDIR="1")
        code, out = run(["cmake", "-S", copy, "-B", os.path.join(copy, BUILD), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                         "-DTROUPE_NODE=OFF", "-DTROUPE_TESTS=OFF", "-DTROUPE_ONEDNN=OFF", f"-DCMAKE_CXX_COMPILER={compiler}", *options], env=environment)
        assert code == 0, out[-4000:]
        for factor, right in (("3.0", True), ("2.0", False)):
            with open(layer, "w") as f:
                f.write(LAYER.replace("FACTOR", factor))
            built(copy, environment)
            code, out = checked(copy, compiler)
            assert (code == 0) == right, f"with dx = {factor} x^2 dy the check ends with {code}:\n{out}"
            assert right or "gradient of input 0" in out, out
    print("one file and one line: passed; a wrong gradient: found")


if __name__ == "__main__":
    main()
