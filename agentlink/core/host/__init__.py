"""What a Host says, in neutral values that hold for every wire generation, and folds over it."""
