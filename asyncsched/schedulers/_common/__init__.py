"""What two or more backends share."""
