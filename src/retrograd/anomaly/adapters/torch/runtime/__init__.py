"""What PyTorch is doing around our code, and how our code stays unnoticed."""
