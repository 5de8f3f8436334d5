"""Every published number is one command here."""
