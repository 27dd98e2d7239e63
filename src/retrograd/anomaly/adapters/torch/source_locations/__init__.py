"""Where in the program operations were called."""
