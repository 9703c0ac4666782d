#!/usr/bin/python3 -ISXutf8
"""Run a command in a Landlock domain that hides paths from it; `--help` lists the options."""

# Built in, where `signal` costs as much as all the rest.
import _signal  # type: ignore[import-not-found]  # no stub
import sys

# An interrupt that arrives during an import can be lost as an exception that nobody may raise there.
if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

try:
    from os.path import dirname, realpath

    # The sandbox room is self-contained. Imported as a package of its own, not through `runner_e2e`, it
    # loads 3 % faster; appended, so that no name of ours can stand in for a standard module.
    sys.path.append(dirname(dirname(realpath(__file__))) + "/lib/runner_e2e")

    from sandbox import load_launcher  # type: ignore[import-not-found]  # found by the line above

    main = load_launcher()
except ImportError as error:
    sys.stderr.write(
        '{"schema":"runner-e2e.sandbox-refusal/v1","code":"protection-unavailable","path":null,'
        f'"message":"this Python cannot run the launcher: it lacks {error.name}",'
        '"remedy":"use a complete CPython 3.11 or newer"}\n'
    )
    sys.exit(125)
except KeyboardInterrupt:
    # Before the launcher could give SIGINT back its usual meaning; now it has it.
    import os
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
