"""Measuring and deleting what a program leaves, however deep it lies and whatever its modes."""

import contextlib
import os
import stat

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def contents(path: str, most: int) -> tuple[int, int]:
    """Blocks of 512 bytes and number of entries below a folder, up to `most` entries. What vanishes meanwhile is not
    counted."""
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
    """Delete a directory as `empty_tree` empties it."""
    empty_tree(path)
    os.rmdir(path)


def empty_tree(path: str) -> None:
    """Delete all that is in a directory, of any depth and any modes: no recursion, no long paths, and no link is
    followed.

    Directories found on the way are moved up to the top under new names, so only two levels are ever open.
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
