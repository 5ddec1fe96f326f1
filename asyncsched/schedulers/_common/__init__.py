"""Code that two or more backends share."""
