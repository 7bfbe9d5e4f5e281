"""Stubs for the NVIDIA libraries that PyTorch's wheel for Linux links, so that it can be imported
without gigabytes that a machine without an NVIDIA GPU has no use for.

Every function of a stub returns 100, cudaErrorNoDevice: PyTorch sees no GPU.

usage: nvidia_stubs.py make|remove TORCH_LIB [CXX]
"""

import pathlib
import re
import subprocess
import sys
import tempfile

NO_DEVICE = 100

#: Of what the system has.
SYSTEM = re.compile(r"(lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|gomp|util)\.so|ld-linux)")

#: Which library has an unversioned symbol; the first that fits.
OWNERS = (
    ("libnccl.", r"nccl"),
    ("libcudnn.", r"cudnn"),
    ("libcublasLt.", r"cublasLt"),
    ("libcublas.", r"cublas"),
    ("libcusparseLt.", r"cusparseLt"),
    ("libcusparse.", r"cusparse"),
    ("libcusolver.", r"cusolver"),
    ("libcufft.", r"cufft"),
    ("libcurand.", r"curand"),
    ("libcufile.", r"cuFile"),
    ("libnvrtc.", r"nvrtc"),
    ("libcupti.", r"cupti"),
    ("libcudart.", r"(__cuda|cuda)"),
    ("libnvshmem_host.", r"nvshmem"),
    ("libcuda.", r"cu[A-Z]"),
)

#: Names the stubs in the folder.
LIST = "nvidia-stubs.txt"


def readelf(*arguments):
    command = ["readelf", "-W", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def wanted(libraries):
    """Of each library that is not there, the symbols that ``libraries`` import, with versions."""
    present = {path.name for path in libraries}
    needed = {
        name
        for path in libraries
        for name in re.findall(r"\(NEEDED\).*\[(.+?)\]", readelf("-d", path))
    }
    stubs = {n: {} for n in sorted(needed) if n not in present and not SYSTEM.match(n)}
    owners = {v: n for path in libraries for v, n in versions(path) if n in stubs}
    defined, unversioned = set(), set()
    for path in libraries:
        for name, version, is_defined, is_function in symbols(path):
            if is_defined:
                defined.add(name)
            elif version in owners:
                stubs[owners[version]][name] = version
            elif version is None and is_function:
                unversioned.add(name)
    for name in sorted(unversioned - defined):
        owner = next((prefix for prefix, start in OWNERS if re.match(start, name)), None)
        for library in stubs:
            if owner is not None and library.startswith(owner):
                stubs[library].setdefault(name, None)
    return stubs


def versions(path):
    """The versions that a library needs, each with the library that has it."""
    _, _, section = readelf("-V", path).partition("Version needs section")
    library = None
    for line in section.splitlines():
        if found := re.search(r"File: (\S+)", line):
            library = found.group(1)
        if found := re.search(r"Name: (\S+)", line):
            yield found.group(1), library


def symbols(path):
    """A library's dynamic symbols: name, version, whether defined, whether maybe a function."""
    for line in readelf("--dyn-syms", path).splitlines():
        words = line.split()
        if len(words) < 8 or not words[0].rstrip(":").isdigit():
            continue
        name, _, version = words[7].partition("@")
        plain = words[4] == "GLOBAL" and not name.startswith("_Z")
        yield name, version.lstrip("@") or None, words[6] != "UND", plain


def write(library, functions, folder, cxx):
    """Compiles the stub of one library."""
    with tempfile.TemporaryDirectory() as scratch:
        source = pathlib.Path(scratch, "stub.cpp")
        lines = (f'extern "C" int {name}() {{ return {NO_DEVICE}; }}\n' for name in functions)
        source.write_text("".join(lines))
        script = pathlib.Path(scratch, "stub.map")
        by_version = {}
        for name, version in functions.items():
            if version is not None:
                by_version.setdefault(version, []).append(name)
        script.write_text(
            "".join(
                f"{version} {{ global: {'; '.join(names)}; }};\n"
                for version, names in by_version.items()
            )
        )
        command = [cxx, "-shared", "-fPIC", "-nostdlib", "-w", f"-Wl,-soname,{library}"]
        if by_version:
            command.append(f"-Wl,--version-script={script}")
        subprocess.run([*command, "-o", str(folder / library), str(source)], check=True)


def remove(folder):
    record = folder / LIST
    if record.exists():
        for name in record.read_text().split():
            (folder / name).unlink(missing_ok=True)
        record.unlink()


def make(folder, cxx):
    remove(folder)
    libraries = sorted(p for p in folder.glob("*.so*") if not p.is_symlink())
    if not libraries:
        sys.exit(f"{folder} has no libraries: is torch installed there?")
    # libcuda is the driver's own, opened only where there is one.
    stubs = {n: f for n, f in wanted(libraries).items() if not n.startswith("libcuda.so")}
    (folder / LIST).write_text("".join(f"{name}\n" for name in stubs))
    for library, functions in stubs.items():
        write(library, functions, folder, cxx)
        print(f"{library}: {len(functions)} functions")


if __name__ == "__main__":
    action, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    if action == "make":
        make(folder, sys.argv[3] if len(sys.argv) > 3 else "c++")
    else:
        remove(folder)
