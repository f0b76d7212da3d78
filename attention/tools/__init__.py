"""What the commands are made of, above training: using, sweeping and comparing runs."""
