"""From a harm back to the birth, and the event that is made of it."""
