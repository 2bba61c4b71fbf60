"""A disk of a small size."""

import os
import shutil
import subprocess

from trial import LeftOut

PAGE = os.sysconf("SC_PAGE_SIZE")


class SmallDisk:
    """A disk at a path, of so many bytes in whole pages. LeftOut where this machine does not allow one."""

    def __init__(self, path, size):
        self.path = path
        path.mkdir()
        self.mount("-t", "tmpfs", "-o", f"size={pages(size)}", "weft-faults")

    def mount(self, *options):
        p = subprocess.run(["mount", *options, str(self.path)], capture_output=True, text=True)
        if p.returncode != 0:
            raise LeftOut(f"no disk of a small size: {p.stderr.partition(chr(10))[0]}")

    def leave(self, free):
        """Makes it larger or smaller, so that so many bytes are free."""
        disk = os.statvfs(self.path)
        self.mount("-o", f"remount,size={pages((disk.f_blocks - disk.f_bfree) * disk.f_frsize + free)}")

    def free(self):
        disk = os.statvfs(self.path)
        return disk.f_bavail * disk.f_frsize

    def replace(self):
        """Puts a plain folder with the same files in its place."""
        copy = self.path.with_name("copy")
        shutil.copytree(self.path, copy)
        subprocess.run(["umount", "-l", str(self.path)], check=True)
        self.path.rmdir()
        copy.rename(self.path)


def pages(size):
    return -(-size // PAGE) * PAGE
