"""Changes to a launch that mend what is wrong with it, each planned as a whole launch before it is told."""
