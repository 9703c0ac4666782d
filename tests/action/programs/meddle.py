"""Write to the runner's command files as code may that guesses where they lie: `meddle.py WORD DIRECTORY`.

`WORD` is what later steps would see. With a command behind it, a process is left that goes on with it,
in a session of its own, and the command takes this one's place.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

LONG_S = 60.0
_PAUSE_S = 0.05


def meddle(directory: Path, word: str) -> None:
    """Append to each command file of a step what it does not hold; the names are the runner's, or act's."""
    lines = {
        "env": f"{word}=told\n",
        "output": f"verdict={word}\n",
        "path": f"/{word}\n",
        "summary": f"{word} summary\n",
    }
    for path in directory.iterdir():
        text = next((text for kind, text in lines.items() if kind in path.name.lower()), "")
        if text and path.is_file() and text not in path.read_text(encoding="utf-8"):
            try:
                with path.open("a", encoding="utf-8") as file:
                    file.write(text)
            except PermissionError as error:
                print(f"{word}: {error.strerror}", flush=True)


def main(word: str, directory: str, command: list[str]) -> None:
    meddle(Path(directory), word)
    if command == ["--on"]:
        deadline = time.monotonic() + LONG_S
        while time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
            meddle(Path(directory), word)
    elif command:
        subprocess.Popen(
            [sys.executable, __file__, word, directory, "--on"],
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
