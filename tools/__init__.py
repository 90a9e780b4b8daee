"""What stands behind bench.sh, test.sh and the site."""
