export ZAEL_STACK=limits
zae-limiter table create
zae-limiter resource set-defaults gpt-4 --limit rpd:100/day
zae-limiter acquire key-1 gpt-4 --consume rpd=100
