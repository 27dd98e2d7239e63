"""Where a bad number may do harm or be made outside of a plain backward and step; each reports to the monitor."""
