"""What last-modified dates buy, and why the constant of the estimator is one half."""
