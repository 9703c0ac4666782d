"""What agents of the e2e tests do in place of honest ones."""
