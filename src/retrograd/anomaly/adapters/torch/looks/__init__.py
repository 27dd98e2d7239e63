"""Looking at gradients: in few passes, on the device, one step later; how large they are."""
