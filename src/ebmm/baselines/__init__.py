"""The systems that the paper compares with, one file each."""
