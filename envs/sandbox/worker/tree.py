"""Measures and deletes the files that a program leaves, at any depth and with any modes."""

import contextlib
import os
import stat

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def contents(path: str, most: int) -> tuple[int, int]:
    """Number of blocks of 512 bytes and number of entries below a folder, up to `most` entries. Entries that vanish in
    the meantime are not counted."""
    blocks = entries = 0
    waiting = [os.open(path, FOLDER)]
    try:
        while waiting and entries <= most:
            folder = waiting.pop()
            try:
                for entry in os.scandir(folder):
                    with contextlib.suppress(OSError):
                        blocks += entry.stat(follow_symlinks=False).st_blocks
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(os.open(entry.name, FOLDER, dir_fd=folder))
                    entries += 1
                    if entries > most:
                        break
            finally:
                os.close(folder)
    finally:
        for folder in waiting:
            os.close(folder)
    return blocks, entries


def remove_tree(path: str) -> None:
    """Delete a directory and its content; see `empty_tree`."""
    empty_tree(path)
    os.rmdir(path)


def empty_tree(path: str) -> None:
    """Delete the content of a directory, at any depth and with any modes, without recursion, long paths or following
    links.

    Subdirectories are moved up to the top under new names, so that at most two levels are open at a time.
    """
    mode = stat.S_IMODE(os.stat(path, follow_symlinks=False).st_mode)
    if mode & 0o700 != 0o700:
        os.chmod(path, mode | 0o700)
    top, serial = os.open(path, FOLDER), 0
    try:
        waiting = ["."]
        while waiting:
            name = waiting.pop()
            folder = os.open(name, FOLDER, dir_fd=top)
            try:
                for entry in os.listdir(folder):
                    if name == "." and entry in waiting:
                        continue
                    if not stat.S_ISDIR(os.stat(entry, dir_fd=folder, follow_symlinks=False).st_mode):
                        os.unlink(entry, dir_fd=folder)
                        continue
                    serial += 1
                    moved = f"{serial:x}.{os.urandom(8).hex()}"
                    with contextlib.suppress(OSError):
                        os.chmod(entry, 0o700, dir_fd=folder)
                    os.rename(entry, moved, src_dir_fd=folder, dst_dir_fd=top)
                    waiting.append(moved)
            finally:
                os.close(folder)
            if name != ".":
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
