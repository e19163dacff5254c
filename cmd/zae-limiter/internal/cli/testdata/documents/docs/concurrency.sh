zae-limiter table create
