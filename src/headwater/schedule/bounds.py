"""The bounds Urbansky et al. put on every interval (section 3): neither constant polling nor none at all."""

from headwater.estimate.base import DAY, MINUTE

SHORTEST = 2 * MINUTE
LONGEST = 31 * DAY
