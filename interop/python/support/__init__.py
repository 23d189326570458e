"""What the cases stand on."""
