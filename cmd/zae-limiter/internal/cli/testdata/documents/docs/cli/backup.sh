sleep 43300 # to half a day later
export ARN=$(zae-limiter backup create early --table limits --output json | sed 's/.*"backup_arn":"\([^"]*\)".*/\1/')
