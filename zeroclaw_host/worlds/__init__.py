"""What a host program calls: tools now, channels and memories by the same rules."""
