zae-limiter deploy --name limits
