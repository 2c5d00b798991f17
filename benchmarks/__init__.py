"""Speed beside what a user would otherwise pick, as ratios within one run."""
