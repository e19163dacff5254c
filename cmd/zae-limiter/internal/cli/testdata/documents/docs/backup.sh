zae-limiter deploy --stack limits --yes
zae-limiter resource set-defaults gpt-4 --limit rpm:100 -n limits
zae-limiter acquire key-1 gpt-4 --consume rpm=1 -n limits
export ARN=$(zae-limiter backup create early --table limits --output json | sed 's/.*"backup_arn":"\([^"]*\)".*/\1/')
zae-limiter table create
zae-limiter namespace register team-a
zae-limiter namespace delete team-a --yes
export ID=$(zae-limiter namespace orphans --output json | sed 's/.*"namespace_id":"\([^"]*\)".*/\1/')
