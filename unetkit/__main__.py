"""`python -m unetkit` is `unetkit`."""

import sys

from unetkit.cli import main

sys.exit(main())
