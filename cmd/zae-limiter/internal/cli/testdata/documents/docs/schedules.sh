export ZAEL_STACK=limits
zae-limiter table create
