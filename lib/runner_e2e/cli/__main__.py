"""`python -m runner_e2e.cli`: the command line without its console script."""

import sys

from runner_e2e.cli.app import main

sys.exit(main())
