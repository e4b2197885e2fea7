"""Packages that scripts/package makes of this build: what they hold, and that their programs run."""
import glob
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ["TROUPE_SOURCE"]
BUILD = os.environ["TROUPE_BUILD"]
NAMES = {"troupe", "trouped", "libtroupe-dev", "libtroupe-predict0", "libtroupe-exchange0", "python3-troupe"}


def run(*command, **options):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True, timeout=300, **options).stdout


def content(path, mode="r"):
    with open(path, mode) as f:
        return f.read()


def fields(deb):
    return dict(re.findall(r"^([A-Z][\w-]*): (.*)$", run("dpkg-deb", "-f", deb), re.M))


class Packages(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.packages = os.path.join(cls.folder.name, "packages")
        cls.root = os.path.join(cls.folder.name, "root")
        made = subprocess.run([f"{SOURCE}/scripts/package", "--no-build", "--quick", "--out", cls.packages], capture_output=True, text=True, timeout=600)
        cls.printed = made.stdout + made.stderr
        assert made.returncode == 0, cls.printed
        cls.debs = {os.path.basename(d).split("_")[0]: d for d in glob.glob(cls.packages + "/*.deb")}
        for deb in cls.debs.values():
            run("dpkg-deb", "-x", deb, cls.root)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def environment(self):
        return dict(os.environ, LD_LIBRARY_PATH=self.root + "/usr/lib", PATH=self.root + "/usr/bin:" + os.environ["PATH"], HOME=self.folder.name,
                    PYTHONPATH=self.root + "/usr/lib/python3/dist-packages", TROUPE_RUNS="off")

    def test_makes_the_packages_with_one_version(self):
        self.assertEqual(set(self.debs) - {"libtroupe-cuda"}, NAMES)
        versions = {fields(d)["Version"] for d in self.debs.values()}
        self.assertEqual(len(versions), 1)
        self.assertIn(f"troupe ({versions.pop()}) ", content(f"{SOURCE}/cmake/debian/changelog").split("\n")[0])

    def test_prints_the_hash_of_each_package(self):
        for deb in self.debs.values():
            digest = hashlib.sha256(content(deb, "rb")).hexdigest()
            self.assertIn(f"{digest}  {os.path.basename(deb)}", self.printed)

    def test_each_installed_file_is_in_one_package(self):
        prefix = self.folder.name + "/prefix"
        run("cmake", "--install", BUILD, "--prefix", prefix)
        installed = {os.path.relpath(os.path.join(d, f), prefix) for d, _, files in os.walk(prefix) for f in files}
        owners = {}
        for name, deb in self.debs.items():
            for line in run("dpkg-deb", "-c", deb).splitlines():
                kind, path = line[0], re.sub(r" -> .*", "", line).split()[-1]
                if kind != "d":
                    owners.setdefault(path[len("./usr/"):], []).append(name)
        self.assertEqual({p: n for p, n in owners.items() if len(n) > 1}, {})
        compressed = {p + ".gz" if p.startswith("share/man/") else p for p in installed}
        added = re.compile(r"share/(doc|lintian)/")  # what Debian's policy asks for
        self.assertEqual(sorted(p for p in owners if not added.match(p)), sorted(compressed))

    def test_all_entries_belong_to_root_and_only_root_writes(self):
        for deb in self.debs.values():
            for line in run("dpkg-deb", "-c", deb).splitlines():
                self.assertRegex(line, r"^(l\S+|.{5}-..-.) root/root ")

    def test_programs_depend_on_the_blas_whose_threads_do_not_compete(self):
        for name in NAMES - {"libtroupe-exchange0", "libtroupe-dev"}:
            self.assertIn("libopenblas0-openmp", fields(self.debs[name])["Depends"], name)
        self.assertNotIn("libopenblas", fields(self.debs["libtroupe-exchange0"])["Depends"])

    def test_no_file_names_the_folder_of_the_build(self):
        for d, _, files in os.walk(self.root):
            for f in files:
                path = os.path.join(d, f)
                if not os.path.islink(path) and "libtroupe_cuda" not in f:
                    self.assertNotIn(f"{SOURCE}/".encode(), content(path, "rb"), path)

    def test_the_unit_starts_the_packaged_daemon(self):
        unit = content(self.root + "/usr/lib/systemd/system/trouped.service")
        self.assertIn("ExecStart=/usr/bin/trouped ", unit)
        self.assertIn("Documentation=file:/usr/share/troupe/docs/security.md", unit)
        self.assertTrue(os.path.exists(self.root + "/usr/share/troupe/docs/security.md"))

    def test_scripts_of_packages_are_valid(self):
        for script in glob.glob(f"{SOURCE}/cmake/debian/*/p*"):
            run("sh", "-n", script)
            self.assertIn("\nset -e\n", content(script), script)

    def test_trains_and_predicts_with_the_packaged_command(self):
        jobs = self.root + "/usr/share/troupe/configs/jobs"
        weights = self.folder.name + "/net.safetensors"
        run("troupe", "train", jobs + "/lenet_synthetic.toml", "--set", "train.finish.steps=3", "--out", weights, env=self.environment())
        predicted = run("troupe", "predict", jobs + "/lenet_synthetic.toml", "--weights", weights, "--test", env=self.environment())
        self.assertGreater(len(predicted.splitlines()), 10)
        self.assertIn("trouped", run("trouped", "--help", env=self.environment()))

    def test_python_finds_the_package_and_the_exchange(self):
        text = "import troupe, troupe.exchange; print(troupe.__file__); print(troupe.exchange._load(None)._name)"
        where = run("/usr/bin/python3", "-c", text, env=self.environment()).split()
        self.assertTrue(where[0].startswith(self.root), where)
        self.assertEqual(where[1], "libtroupe_exchange.so.0")

    def test_a_c_program_builds_against_the_packaged_library(self):
        source = self.folder.name + "/version.c"
        with open(source, "w") as out:
            out.write('#include <troupe_predict.h>\n#include <stdio.h>\nint main(void) { troupe_predict_net* net = NULL;\n'
                      '  if (troupe_predict_open("none", NULL, &net) != 0) puts(troupe_predict_error_text());\n  return 0; }\n')
        run("cc", "-I", self.root + "/usr/include", source, "-L", self.root + "/usr/lib", "-ltroupe_predict", "-o", self.folder.name + "/version")
        self.assertIn("none", run(self.folder.name + "/version", env=self.environment()))

    def test_packs_the_same_bytes_in_another_locale_and_zone(self):
        again = self.folder.name + "/again"
        date = run("date", "-u", "-d", re.search(r"^ -- .*>  (.*)$", content(f"{SOURCE}/cmake/debian/changelog"), re.M)[1], "+%s").strip()
        run("cpack", "--config", BUILD + "/CPackConfig.cmake", "-B", again, "-D", "CPACK_COMPONENTS_ALL=exchange;trouped",
            "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip", umask=0o022, env=dict(os.environ, SOURCE_DATE_EPOCH=date, LC_ALL="C.UTF-8", TZ="Asia/Tokyo"))
        made = glob.glob(again + "/*.deb")
        self.assertEqual(len(made), 2)
        for deb in made:
            self.assertTrue(content(deb, "rb") == content(f"{self.packages}/{os.path.basename(deb)}", "rb"), deb)


if __name__ == "__main__":
    sys.exit(unittest.main())
