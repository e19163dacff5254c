# The namespace of the examples was deleted, and its name is taken again.
zae-limiter namespace register team-a
zae-limiter namespace delete team-a --yes
export uZ3kq0aXb_s=$(zae-limiter namespace orphans --output json | sed 's/.*"namespace_id":"\([^"]*\)".*/\1/')
zae-limiter namespace register team-a
