"""The lab about the size that a program gives to recv."""
