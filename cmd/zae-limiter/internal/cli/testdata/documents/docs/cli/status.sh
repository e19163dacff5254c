# The table belongs to a stack.
zae-limiter table delete --table limits --confirm limits
zae-limiter deploy --name limits --region eu-central-1
