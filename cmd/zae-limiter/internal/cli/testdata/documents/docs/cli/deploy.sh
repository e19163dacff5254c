# A stack makes its own table.
zae-limiter table delete --table limits --confirm limits
