"""These scripts are for a machine of GPUs without a network."""
