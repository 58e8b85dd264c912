"""The comparison of brokers: what is measured, on whom, and how it is told."""
