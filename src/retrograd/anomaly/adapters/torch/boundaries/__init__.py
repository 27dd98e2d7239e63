"""Where a bad number may do harm, or is made, outside of a plain backward and step; each tells the monitor."""
