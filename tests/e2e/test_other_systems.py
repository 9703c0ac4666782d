"""Elsewhere than on Linux the package can be imported, and a cell is refused in words."""

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]

# What such a system lacks, taken away from this one before anything of ours is imported.
ELSEWHERE = """
import _ctypes, os, sys
import httpx, psutil, starlette, uvicorn  # their own ways to notice the system are not the question
real = _ctypes.dlsym
def dlsym(handle, name):
    if name in ("prctl", "capget", "capset"):
        raise OSError(f"symbol not found: {name}")
    return real(handle, name)
_ctypes.dlsym = dlsym
for name in ("O_PATH", "getresuid", "pidfd_open"):
    delattr(os, name)
sys.platform = "darwin"
"""


def run(script: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", ELSEWHERE + script],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(PROJECT / "lib"),
            "RUNNER_E2E_DECOY": "decoy-for-a-test",
        },
    )


def test_the_demo_is_refused_with_a_sentence(tmp_path: Path) -> None:
    result = run(
        "sys.argv = ['runner-e2e', 'demo']\nfrom runner_e2e.cli import main\nsys.exit(main())", tmp_path
    )

    assert result.returncode == 2, result.stderr
    assert "cannot be isolated on darwin" in " ".join(result.stdout.split())
    assert "Traceback" not in result.stderr
    assert len([*tmp_path.rglob("cell.json")]) == 1


def test_the_launcher_refuses_there_too(tmp_path: Path) -> None:
    launcher = PROJECT / "entrypoints" / "agent_filesystem_sandbox.py"
    script = f"sys.argv = ['l', '--hide', {str(tmp_path)!r}, '--', 'true']\nimport runpy\n"
    result = run(f"{script}runpy.run_path({str(launcher)!r}, run_name='__main__')", tmp_path)

    assert result.returncode == 125
    assert '"code"' in result.stderr
    assert "Traceback" not in result.stderr
