"""Checking gradients: in few passes, on the device, or one step later; and measuring them."""
