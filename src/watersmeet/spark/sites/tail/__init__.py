"""What DISTINCT and aggregates ask of the answers at the site that finds them."""
