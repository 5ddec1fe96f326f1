"""Programs that components carry to where they run; each is one file that needs the standard library only."""
