"""The page that shows how well recrawl works: audits of the model, and hosts held out."""
