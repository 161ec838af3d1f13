"""A real Linux guest with a PCI card of display class that is meant for passthrough: QEMU under TCG, Debian's kernel, the host's tree
read-only over 9p, so that the very anycard under test looks at the guest from inside.

Needs qemu-system-x86_64 and busybox (Debian: qemu-system-x86 busybox-static) and, once, apt-get for the kernel's package; everything else
is made here and kept under ANYCARD_TEST_CACHE (default ~/.cache/anycard-tests).
"""

from __future__ import annotations

import gzip
import lzma
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

MODULES = ("virtio_pci", "9pnet_virtio", "9p", "vfio_iommu_type1", "vfio_pci")
CARD = "virtio-serial-pci,id=card,bus=slot1,class=0x0380"  # a display controller for whoever asks the bus
BEGIN, END = "=== anycard begins ===", "=== anycard ends ==="
BOOT_S = 300  # not a measure of anything: how long until a hang is called a hang

_INIT = f"""#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
for module in $(cat /modules); do insmod /lib/$module; done
mkdir -p /host
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=1048576 host /host
for name in proc sys dev; do mount --bind /$name /host/$name; done
mount -t tmpfs tmp /host/media
mkdir -m 1777 /dev/shm
for device in /sys/bus/pci/devices/*; do
  case $(cat $device/class) in 0x0380*)
    address=${{device##*/}}
    echo vfio-pci > $device/driver_override
    [ -e $device/driver ] && echo $address > $device/driver/unbind
    echo $address > /sys/bus/pci/drivers_probe
  esac
done
echo "{BEGIN}"
chroot /host /bin/sh -c 'cd /; export HOME=/media TMPDIR=/media PATH=/usr/bin:/bin:/usr/sbin:/sbin LC_ALL=C.UTF-8; '"$(cat /command)"
echo "{END}"
poweroff -f
"""


def missing() -> str | None:
    """What is to be installed before a guest can run here; None when nothing."""
    wanted = {"qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static", "apt-get": "apt"}
    absent = [package for program, package in wanted.items() if shutil.which(program) is None]
    return " ".join(absent) or None


def run_inside(command: str, work: Path, *, iommu: bool) -> str:
    """What ``command`` prints in a fresh guest whose card is bound to vfio-pci, or would be."""
    kernel, modules = _kernel(_cache())
    initrd = work / "initrd.gz"
    initrd.write_bytes(_initrd(modules, command))
    done = subprocess.run(
        [
            "qemu-system-x86_64", "-machine", "q35", "-accel", "tcg", "-cpu", "qemu64", "-m", "768", "-display", "none", "-vga", "none",
            "-nic", "none", "-no-reboot", "-monitor", "none", "-serial", "stdio", "-kernel", str(kernel), "-initrd", str(initrd),
            "-append", "console=ttyS0 panic=-1 quiet" + (" intel_iommu=on" if iommu else ""),
            *(("-device", "intel-iommu,intremap=on,caching-mode=on") if iommu else ()),
            "-device", "pcie-root-port,id=slot1,chassis=1,slot=1", "-device", CARD,
            "-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
            "-device", "virtio-9p-pci,fsdev=host,mount_tag=host",
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=BOOT_S,
        check=False,
    )  # fmt: skip
    printed = done.stdout.decode("utf-8", "replace").replace("\r", "")
    assert BEGIN in printed and END in printed, printed[-3000:] + done.stderr.decode("utf-8", "replace")[-1000:]
    return printed.partition(BEGIN)[2].partition(END)[0]


def anycard(*arguments: str) -> str:
    """The command line that runs the anycard under test in the guest."""
    import anycard as package

    source = Path(package.__file__).parents[1]
    return f"PYTHONPATH={source} {sys.executable} -B -m anycard.cli {' '.join(arguments)}"


def _cache() -> Path:
    folder = Path(os.environ.get("ANYCARD_TEST_CACHE") or Path.home() / ".cache" / "anycard-tests")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _kernel(cache: Path) -> tuple[Path, list[Path]]:
    """Debian's newest packaged kernel, unpacked and never installed: its image, and the modules in the order in which they load."""
    folder = cache / "kernel"
    if not folder.is_dir():
        depends = subprocess.run(
            ["apt-cache", "depends", "linux-image-amd64"], capture_output=True, text=True, check=True
        ).stdout
        package = re.search(r"Depends: (linux-image-\d\S+)", depends)
        assert package, depends
        half = cache / f"kernel.{os.getpid()}"
        half.mkdir()
        subprocess.run(["apt-get", "download", "-q", package[1]], cwd=half, check=True, capture_output=True)
        (archive,) = half.glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", str(archive), str(half)], check=True)
        archive.unlink()
        half.rename(folder)
    (image,) = folder.glob("boot/vmlinuz-*")
    (tree,) = (
        (folder / "lib/modules").iterdir()
        if (folder / "lib/modules").is_dir()
        else (folder / "usr/lib/modules").iterdir()
    )
    return image, list(_in_order(tree))


def _in_order(tree: Path) -> Iterator[Path]:
    """The modules of MODULES with what they need, what is needed first; those built into the kernel are left out."""
    needs = _dependencies(tree)
    by_name = {_module(path): path for path in needs}
    done: set[str] = set()

    def wanted(path: str) -> Iterator[Path]:
        for need in needs[path]:
            yield from wanted(need)
        if path not in done:
            done.add(path)
            yield tree / path

    for name in MODULES:
        if name in by_name:
            yield from wanted(by_name[name])


def _dependencies(tree: Path) -> dict[str, list[str]]:
    """As modules.dep has them; the package comes without that file, so depmod's work is done by what each module says it needs."""
    paths = {_module(str(path)): str(path.relative_to(tree)) for path in tree.rglob("*.ko*")}
    return {path: [paths[need] for need in _needs(tree / path) if need in paths] for path in paths.values()}


def _needs(module: Path) -> Sequence[str]:
    found = re.search(rb"\0depends=([\w,-]*)\0", _plain(module))
    return [_module(name) for name in found[1].decode().split(",") if name] if found else []


def _module(path: str) -> str:
    return Path(path).name.partition(".ko")[0].replace("-", "_")


def _plain(module: Path) -> bytes:
    data = module.read_bytes()
    return lzma.decompress(data) if module.suffix == ".xz" else data


def _initrd(modules: Sequence[Path], command: str) -> bytes:
    names = [f"{number:02}-{_module(str(path))}.ko" for number, path in enumerate(modules)]
    busybox = shutil.which("busybox")
    assert busybox
    files = {
        "init": (_INIT.encode(), 0o755),
        "bin/busybox": (Path(busybox).read_bytes(), 0o755),
        "modules": ("\n".join(names).encode(), 0o644),
        "command": (command.encode(), 0o644),
        **{f"lib/{name}": (_plain(path), 0o644) for name, path in zip(names, modules, strict=True)},
    }
    folders = ("bin", "lib", "proc", "sys", "dev", "tmp")
    entries = [*(_entry(name, b"", stat.S_IFDIR | 0o755) for name in folders)]
    entries += [_entry(name, data, stat.S_IFREG | mode) for name, (data, mode) in files.items()]
    return gzip.compress(b"".join([*entries, _entry("TRAILER!!!", b"", 0)]), 1)


def _entry(name: str, data: bytes, mode: int) -> bytes:
    """Of a cpio archive in the newc form, which the kernel unpacks."""
    path = name.encode() + b"\0"
    numbers = (0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0)
    head = b"070701" + "".join(f"{number:08X}" for number in numbers).encode() + path
    return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)
