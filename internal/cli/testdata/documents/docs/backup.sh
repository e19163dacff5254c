zae-limiter table create
zae-limiter namespace register team-a
zae-limiter namespace delete team-a --yes
export ID=$(zae-limiter namespace orphans --output json | sed 's/.*"namespace_id":"\([^"]*\)".*/\1/')
