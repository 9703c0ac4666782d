"""Every contact with GitHub Actions; holds no rule of the product itself."""
