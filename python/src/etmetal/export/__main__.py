"""``python -m etmetal.export``."""

import sys

from etmetal.export.cli import main

sys.exit(main())
