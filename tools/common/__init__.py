"""What two or more of bench, site, learn and the tests need."""
