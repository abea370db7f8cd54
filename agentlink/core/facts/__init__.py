"""What the journal holds, past tense."""
