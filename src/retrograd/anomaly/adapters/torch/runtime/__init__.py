"""What PyTorch is doing around us, and being unnoticed by it."""
