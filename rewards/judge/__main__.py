"""`python -m rewards.judge calibrate`: measures how reliable a judge is."""

import sys

from rewards.judge.calibration import main

sys.exit(main())
