"""What stands before a person. Talks to the daemon only over its public protocols."""
